//! Mail between sessions: echo, full targets, failures, unloading.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::agents::{Echo, Pair, Stuck, sink, soon, source};
use super::town::{Town, factory};
use crate::actors::{AgentError, Control};
use crate::config::Config;
use crate::error::Code;
use crate::protocol::Draft;

#[tokio::test]
async fn mail_goes_to_an_agent_and_its_answer_comes_back() {
    let town = Town::new(Config::default(), vec![("echo", factory(|_| Ok(Box::new(Echo))))]);
    let echo = town.agent("echo", "echo").await;
    let mut driver = town.driver("driver").await;
    for text in ["one", "two", "three"] {
        let receipt = soon(driver.send(Draft::text(echo, text))).await.unwrap();
        assert_eq!(receipt.target, echo);
        let taken = soon(driver.take()).await.unwrap();
        assert_eq!(taken.messages[0].message.body.as_str(), text);
        soon(driver.acknowledge(taken)).await.unwrap();
    }
    soon(town.shared.quiet()).await;
    let progress = town.shared.progress();
    assert_eq!((progress.queued, progress.accepted, progress.handled), (6, 6, 6));
    assert!(town.inspect(echo).await.quiet);
    drop(driver);
    soon(town.shared.shut_down()).await;
}

#[tokio::test]
async fn a_source_fills_its_sink_and_goes_on_when_there_is_room() {
    let seen = Arc::default();
    let mut config = Config::default();
    config.limits.pending_max = 5;
    let town = Town::new(config, vec![("source", source(1_000)), ("sink", sink(&seen, 0))]);
    let sink = town.agent("sink", "sink").await;
    let mut sources = Vec::new();
    for index in 0..4 {
        sources.push(town.agent(&format!("source-{index}"), "source").await);
    }
    let starter = town.driver("starter").await;
    for source in &sources {
        soon(starter.send(Draft::text(*source, "start"))).await.unwrap();
    }
    soon(town.shared.quiet()).await;
    assert_eq!(seen.load(Ordering::Relaxed), 4_000);
    assert_eq!(town.inspect(sink).await.counts.handled, 4_000);
    assert_eq!(town.shared.cell(sink).n_pending(), 0);
    soon(town.shared.shut_down()).await;
}

#[tokio::test]
async fn a_panicking_agent_comes_back_and_every_message_has_an_outcome() {
    let seen = Arc::default();
    let mut config = Config::default();
    config.limits.pending_max = 2_000;
    config.limits.retry_backoff = Duration::from_millis(1);
    let town = Town::new(config, vec![("sink", sink(&seen, 7))]);
    let sink = town.agent("sink", "sink").await;
    let driver = town.driver("driver").await;
    for text in 0..200 {
        soon(driver.send(Draft::text(sink, text.to_string()))).await.unwrap();
    }
    soon(town.shared.quiet()).await;
    let inspection = town.inspect(sink).await;
    assert_eq!(inspection.counts.handled + inspection.counts.dead, 200);
    let seen = (200, inspection.counts.handled, inspection.counts.dead);
    assert_eq!(town.seen.counts(), seen, "each outcome is shown once");
    assert_eq!(town.inspect(driver.id()).await.counts.told_dead, inspection.counts.dead);
    assert_eq!(town.shared.cell(sink).n_pending(), 0);
    soon(town.shared.shut_down()).await;
}

#[tokio::test]
async fn a_full_target_refuses_and_a_send_that_waits_gets_room() {
    let mut config = Config::default();
    config.limits.pending_max = 2;
    let town = Town::new(config, vec![]);
    let mut target = town.driver("target").await;
    let sender = town.driver("sender").await;
    for _ in 0..2 {
        soon(sender.send(Draft::text(target.id(), "a"))).await.unwrap();
    }
    let refused = soon(sender.send(Draft::text(target.id(), "b"))).await.unwrap_err();
    assert_eq!(refused.code(), Code::MailboxFull);
    let waiting = sender.send_when_room(Draft::text(target.id(), "c"));
    let taking = async {
        let taken = target.take().await.unwrap();
        let count = taken.messages.len();
        target.acknowledge(taken).await.unwrap();
        count
    };
    let (receipt, taken) = soon(async { tokio::join!(waiting, taking) }).await;
    assert_eq!((receipt.unwrap().n, taken), (3, 2));
    let taken = soon(target.take()).await.unwrap();
    assert_eq!(taken.messages[0].message.body.as_str(), "c");
    drop(target);
    soon(town.shared.shut_down()).await;
}

#[tokio::test]
async fn what_was_taken_and_not_acknowledged_comes_again_to_the_next_handle() {
    let town = Town::new(Config::default(), vec![]);
    let mut target = town.driver("target").await;
    let sender = town.driver("sender").await;
    soon(sender.send(Draft::text(target.id(), "a"))).await.unwrap();
    let taken = soon(target.take()).await.unwrap();
    assert_eq!(taken.attempt, 1);
    let id = target.id();
    let second = crate::actors::Driver::attach(&town.shared, id).await;
    assert_eq!(second.err().unwrap().code(), Code::StaleCaller);
    drop(target);
    let mut target = soon(crate::actors::Driver::attach(&town.shared, id)).await.unwrap();
    let again = soon(target.take()).await.unwrap();
    assert_eq!((again.attempt, again.messages.len()), (2, 1));
    soon(target.acknowledge(again)).await.unwrap();
    drop(target);
    soon(town.shared.quiet()).await;
    soon(town.shared.shut_down()).await;
}

#[tokio::test]
async fn a_denied_send_looks_like_a_missing_session_before_its_size_is_looked_at() {
    let town = Town::new(Config::default(), vec![]);
    let target = town.driver("target").await;
    let sender = town.driver("sender").await;
    let huge = "x".repeat(100_000);
    let large = soon(town.send(sender.id(), target.id(), &huge)).await.unwrap_err();
    assert_eq!(large.code(), Code::MessageTooLarge);
    let other = town.driver("other").await;
    town.forbidden.lock().unwrap().push(other.id());
    let denied = soon(town.send(sender.id(), other.id(), &huge)).await.unwrap_err();
    assert_eq!(denied.code(), Code::NotFound);
    let own = soon(town.send(sender.id(), sender.id(), "a")).await.unwrap_err();
    assert_eq!(own.code(), Code::SelfMessage);
    soon(town.shared.shut_down()).await;
}

#[tokio::test]
async fn idle_sessions_leave_and_come_back_with_what_their_journals_say() {
    let mut config = Config::default();
    config.life.idle_unload = Duration::ZERO;
    let town = Town::new(config, vec![("echo", factory(|_| Ok(Box::new(Echo))))]);
    let echo = town.agent("echo", "echo").await;
    let sender = town.driver("sender").await;
    for count in 1..=50 {
        soon(sender.send(Draft::text(echo, "a"))).await.unwrap();
        soon(async {
            while town.inspect(echo).await.counts.handled < count {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    soon(async {
        while town.inspect(sender.id()).await.pending < 50 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let inspection = town.inspect(echo).await;
    assert_eq!((inspection.counts.handled, inspection.counts.queued), (50, 50));
    assert_eq!(inspection.numbers, [(sender.id(), 50)]);
    soon(town.shared.shut_down()).await;
}

#[tokio::test]
async fn a_session_without_its_factory_keeps_its_mail() {
    let town = Town::new(
        Config::default(),
        vec![("bad", factory(|_| Err(AgentError::new("BAD", "not today"))))],
    );
    let (bad, none) = (town.agent("bad", "bad").await, town.agent("none", "none").await);
    let sender = town.driver("sender").await;
    for target in [bad, none] {
        soon(sender.send(Draft::text(target, "a"))).await.unwrap();
        soon(async {
            while town.inspect(target).await.pending == 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    assert_eq!(town.fallen.lock().unwrap().len(), 2);
    soon(town.shared.call(bad, |reply| Control::Close { reply })).await.unwrap();
    let inspection = town.inspect(bad).await;
    assert_eq!((inspection.pending, inspection.counts.dead), (0, 1));
    soon(town.shared.shut_down()).await;
}

#[tokio::test]
async fn a_step_can_ask_what_has_arrived_and_handles_it_with_its_turn() {
    let town = Town::new(Config::default(), vec![("pair", factory(|_| Ok(Box::new(Pair))))]);
    let pair = town.agent("pair", "pair").await;
    let sender = town.driver("sender").await;
    for text in ["a", "b"] {
        soon(sender.send(Draft::text(pair, text))).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    soon(town.shared.quiet()).await;
    let inspection = town.inspect(pair).await;
    assert_eq!((inspection.counts.handled, inspection.attempts), (2, 0));
    soon(town.shared.shut_down()).await;
}

#[tokio::test]
async fn a_step_that_never_ends_holds_up_the_close_of_nobody_else_and_not_for_ever() {
    let mut config = Config::default();
    config.life.stop_max = Duration::from_millis(50);
    let town = Town::new(config, vec![("stuck", factory(|_| Ok(Box::new(Stuck))))]);
    let stuck = town.agent("stuck", "stuck").await;
    let mut sender = town.driver("sender").await;
    soon(sender.send(Draft::text(stuck, "a"))).await.unwrap();
    soon(async {
        while town.inspect(stuck).await.taken == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let waiting = sender.take();
    let (closed, ()) = soon(async { tokio::join!(waiting, town.shared.shut_down()) }).await;
    assert_eq!(closed.unwrap_err().code(), Code::Closed);
}

#[tokio::test]
async fn a_closed_session_ends_its_turn_and_its_mail_is_dead() {
    let town = Town::new(Config::default(), vec![("stuck", factory(|_| Ok(Box::new(Stuck))))]);
    let stuck = town.agent("stuck", "stuck").await;
    let sender = town.driver("sender").await;
    for _ in 0..3 {
        soon(sender.send(Draft::text(stuck, "a"))).await.unwrap();
    }
    soon(town.shared.call(stuck, |reply| Control::Close { reply })).await.unwrap();
    soon(sender.send(Draft::text(stuck, "late"))).await.unwrap();
    soon(town.shared.quiet()).await;
    let counts = town.inspect(stuck).await.counts;
    assert_eq!(counts.dead + counts.refused, 4);
    assert_eq!(town.inspect(sender.id()).await.counts.told_dead, counts.dead);
    assert_eq!(town.shared.cell(stuck).n_pending(), 0);
    soon(town.shared.shut_down()).await;
}

#[tokio::test]
async fn a_failed_session_is_opened_without_its_agent() {
    let seen = Arc::default();
    let town = Town::new(Config::default(), vec![("sink", sink(&seen, 0))]);
    let sink = town.agent("sink", "sink").await;
    let sender = town.driver("sender").await;
    town.shared.cell(sink).push(Control::Fail { for_good: true });
    soon(sender.send(Draft::text(sink, "a"))).await.unwrap();
    soon(town.shared.quiet()).await;
    let counts = town.inspect(sink).await.counts;
    assert_eq!((counts.accepted, counts.refused), (0, 1));
    assert_eq!(town.shared.cell(sink).n_pending(), 0);
    assert_eq!(seen.load(Ordering::Relaxed), 0);
    soon(town.shared.shut_down()).await;
}

#[tokio::test]
async fn an_observer_is_shown_the_dead_of_every_frame_of_a_close() {
    let mut config = Config::default();
    config.limits.pending_max = 2_000;
    let town = Town::new(config, vec![]);
    let (target, sender) = (town.driver("target").await, town.driver("sender").await);
    for text in 0..600 {
        soon(sender.send(Draft::text(target.id(), text.to_string()))).await.unwrap();
    }
    soon(async {
        while town.inspect(target.id()).await.counts.accepted < 600 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    soon(town.shared.call(target.id(), |reply| Control::Close { reply })).await.unwrap();
    soon(town.shared.quiet()).await;
    assert_eq!(town.seen.counts(), (600, 0, 600));
    soon(town.shared.shut_down()).await;
}

#[tokio::test]
async fn the_cells_of_sessions_that_are_not_in_memory_leave_the_directory() {
    let mut config = Config::default();
    config.life.idle_unload = Duration::ZERO;
    let town = Town::new(config, vec![("echo", factory(|_| Ok(Box::new(Echo))))]);
    let (sender, held) = (town.driver("sender").await, town.driver("held").await);
    soon(sender.send(Draft::text(held.id(), "waits"))).await.unwrap();
    let mut echoes = Vec::new();
    for n in 0..3_000 {
        let echo = town.agent(&format!("echo-{n}"), "echo").await;
        if n < 20 {
            soon(sender.send(Draft::text(echo, "a"))).await.unwrap();
        }
        echoes.push(echo);
    }
    let n_known = || echoes.iter().filter(|id| town.shared.known_cell(**id).is_some()).count();
    soon(async {
        while n_known() > 1_000 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // Who has gone comes back with all that was known, its room too.
    assert_eq!(town.shared.cell(held.id()).n_pending(), 1);
    for echo in &echoes[..20] {
        soon(sender.send(Draft::text(*echo, "b"))).await.unwrap();
    }
    soon(async {
        for echo in &echoes[..20] {
            while town.inspect(*echo).await.counts.handled < 2 {
                tokio::task::yield_now().await;
            }
            while town.shared.cell(*echo).n_pending() > 0 {
                tokio::task::yield_now().await;
            }
        }
    })
    .await;
    soon(town.shared.shut_down()).await;
}
