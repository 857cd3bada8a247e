//! The fold: what it refuses, what it reads back, and what a snapshot keeps.

use callboard::protocol::session::{
    AgentState, Dead, DeadReason, Event, Failure, Outcome, Reason, Refusal, State, TurnOutcome,
};
use callboard::protocol::{Body, MessageId};
use serde_json::Value;

use super::machine_script::{Desk, created, id, limits, message, play};

fn queued(target: &str, n: u64) -> Event {
    Event::Queued { target: id(target), n, message: message("s", "q") }
}

fn delivered(target: &str, upto: u64, refused: &[u64]) -> Event {
    let refusal = |n: &u64| Refusal { n: *n, reason: Reason::Revoked };
    Event::Delivered { target: id(target), upto, refused: refused.iter().map(refusal).collect() }
}

fn accepted(from: &str, n: u64, arrival: u64, settled: u64) -> Event {
    Event::Accepted { from: id(from), n, arrival, settled, message: message(from, "m") }
}

fn refused(from: &str, n: u64, settled: u64) -> Event {
    let refusal = Refusal { n, reason: Reason::Closed };
    Event::Refused { from: id(from), refusal, id: message(from, "m").id, settled }
}

fn started(turn: u64, attempt: u32, taken: &[u64]) -> Event {
    Event::TurnStarted { turn, attempt, taken: taken.to_vec() }
}

fn ended(turn: u64, outcome: TurnOutcome, handled: &[u64]) -> Event {
    Event::TurnEnded { turn, outcome, handled: handled.to_vec(), state: None, again: false }
}

fn failed() -> TurnOutcome {
    TurnOutcome::Failed(Failure { code: "BAD".to_owned(), message: String::new() })
}

fn dead(arrival: u64, from: &str, (number, n): (u64, u64)) -> Event {
    let id_of: MessageId = message(from, "m").id;
    let outcome = Outcome { number, n, id: id_of, reason: DeadReason::Attempts };
    Event::Dead(Dead { arrival, from: id(from), outcome })
}

fn noted(from: &str, upto: u64, numbers: &[u64]) -> Event {
    let outcome = |number: &u64| {
        let id = message("s", "q").id;
        Outcome { number: *number, n: *number, id, reason: DeadReason::Closed }
    };
    Event::OutcomeNoted { from: id(from), upto, outcomes: numbers.iter().map(outcome).collect() }
}

fn told(sender: &str, upto: u64) -> Event {
    Event::Told { sender: id(sender), upto }
}

fn fold(events: &[Event]) -> State {
    let mut state = State::default();
    for event in events {
        state.apply(event).unwrap();
    }
    state
}

/// A session with something of everything: mail out and in, a dead message, an open turn.
fn busy() -> Vec<Event> {
    vec![
        Event::Created(created().into()),
        queued("b", 1),
        queued("b", 2),
        queued("b", 3),
        delivered("b", 1, &[]),
        refused("a", 1, 0),
        accepted("a", 2, 1, 1),
        accepted("a", 3, 2, 1),
        accepted("c", 1, 3, 0),
        started(1, 1, &[1]),
        ended(1, failed(), &[]),
        dead(1, "a", (1, 2)),
        noted("b", 1, &[1]),
        started(2, 1, &[2]),
    ]
}

#[track_caller]
fn refuses(state: &State, event: &Event, why: &str) {
    let mut candidate = state.clone();
    let illegal = candidate.apply(event).expect_err(&format!("{event:?}"));
    assert_eq!(illegal.0, why, "{event:?}");
    assert_eq!(&candidate, state, "a refused event changed the state: {event:?}");
}

#[test]
fn m54_an_illegal_event_is_refused_and_changes_nothing() {
    refuses(&State::default(), &queued("b", 1), "creation comes first and once");
    let state = fold(&busy());
    let cases = [
        (Event::Created(created().into()), "creation comes first and once"),
        (queued("b", 3), "a queued number is not the next one"),
        (queued("b", 5), "a queued number is not the next one"),
        (queued("d", 2), "a queued number is not the next one"),
        (delivered("d", 1, &[]), "settled a lane without mail"),
        (delivered("b", 1, &[]), "settled outside the unsettled"),
        (delivered("b", 4, &[]), "settled outside the unsettled"),
        (delivered("b", 2, &[1]), "a refusal outside the newly settled"),
        (delivered("b", 2, &[3]), "a refusal outside the newly settled"),
        (delivered("b", 3, &[3, 2]), "refusals out of order"),
        (delivered("b", 3, &[2, 2]), "refusals out of order"),
        (accepted("a", 3, 4, 1), "a decided number is not the next one"),
        (accepted("a", 5, 4, 1), "a decided number is not the next one"),
        (accepted("a", 4, 4, 4), "settled at or above an undecided number"),
        (accepted("a", 4, 3, 1), "an arrival is not the next one"),
        (accepted("a", 4, 5, 1), "an arrival is not the next one"),
        (refused("a", 1, 0), "a decided number is not the next one"),
        (refused("a", 5, 0), "a decided number is not the next one"),
        (refused("a", 4, 4), "settled at or above an undecided number"),
        (started(3, 1, &[3]), "a turn within a turn"),
        (Event::Taken { turn: 1, taken: vec![3] }, "mail for a turn that is not open"),
        (Event::Taken { turn: 2, taken: vec![] }, "took nothing"),
        (Event::Taken { turn: 2, taken: vec![2] }, "took what is not in front of the inbox"),
        (Event::Taken { turn: 2, taken: vec![3, 4] }, "took what is not in front of the inbox"),
        (ended(1, failed(), &[]), "ended a turn that is not open"),
        (ended(2, failed(), &[2]), "a turn handled other than what it took"),
        (ended(2, TurnOutcome::Completed, &[]), "a turn handled other than what it took"),
        (ended(2, TurnOutcome::Completed, &[3]), "a turn handled other than what it took"),
        (ended(2, TurnOutcome::Interrupted, &[2]), "a turn handled other than what it took"),
        (dead(2, "a", (2, 3)), "dead is what the inbox does not hold"),
        (dead(3, "a", (2, 1)), "dead is what the inbox does not hold"),
        (dead(3, "c", (1, 2)), "dead is what the inbox does not hold"),
        (dead(3, "c", (2, 1)), "an outcome's number is not the next one"),
        (told("c", 1), "told without an outcome"),
        (told("a", 0), "told outside the untold"),
        (told("a", 2), "told outside the untold"),
        (noted("b", 1, &[1]), "noted outcomes are not the next ones"),
        (noted("b", 1, &[]), "noted outcomes are not the next ones"),
        (noted("b", 3, &[3]), "noted outcomes are not the next ones"),
        (noted("b", 3, &[2]), "noted outcomes are not the next ones"),
        (Event::Closed, "closed in a turn"),
    ];
    for (event, why) in &cases {
        refuses(&state, event, why);
    }
    let state_kept = Event::TurnEnded {
        turn: 2,
        outcome: failed(),
        handled: Vec::new(),
        state: Some(AgentState(serde_json::value::to_raw_value("kept").unwrap())),
        again: false,
    };
    refuses(&state, &state_kept, "a turn that failed keeps a state");
}

#[test]
fn m54_turns_begin_in_order_with_the_next_attempt_of_what_is_in_front() {
    let mut events = busy();
    events.push(ended(2, failed(), &[]));
    let state = fold(&events);
    for (event, why) in [
        (started(2, 2, &[2]), "a turn is not the next one"),
        (started(4, 2, &[2]), "a turn is not the next one"),
        (started(3, 1, &[2]), "an attempt is not the next one"),
        (started(3, 3, &[2]), "an attempt is not the next one"),
        (started(3, 1, &[3]), "an attempt is not the next one"),
        (started(3, 2, &[3]), "took what is not in front of the inbox"),
        (started(3, 1, &[]), "a turn without mail or wish"),
        (Event::Closed, "closed with accepted mail"),
    ] {
        refuses(&state, &event, why);
    }
    events.push(started(3, 2, &[2]));
    fold(&events);
}

#[test]
fn m37_a_closed_session_takes_nothing_any_more() {
    let state = fold(&[Event::Created(created().into()), accepted("a", 1, 1, 0)]);
    refuses(&state, &Event::Closed, "closed with accepted mail");
    let closed = fold(&[
        Event::Created(created().into()),
        accepted("a", 1, 1, 0),
        dead(1, "a", (1, 1)),
        Event::Closed,
        told("a", 1),
        refused("a", 2, 0),
    ]);
    refuses(&closed, &accepted("a", 3, 2, 0), "accepted after the close");
    refuses(&closed, &started(1, 1, &[]), "a turn after the close");
    refuses(&closed, &Event::Closed, "closed twice");
    assert!(!closed.has_pending());
}

#[test]
fn m51_an_unknown_event_or_field_is_an_error() {
    let read = |json: &str| serde_json::from_str::<Event>(json).map_err(|_| "refused");
    assert_eq!(read(r#""closed""#), Ok(Event::Closed));
    assert_eq!(read(r#""opened""#), Err("refused"));
    assert_eq!(read(r#"{"opened":{}}"#), Err("refused"));
    let sender = id("a").to_string();
    let known = format!(r#"{{"told":{{"sender":"{sender}","upto":1}}}}"#);
    assert_eq!(read(&known), Ok(told("a", 1)));
    assert_eq!(read(&known.replace("}}", r#","more":1}}"#)), Err("refused"));
    for event in stored() {
        for more in with_more(&serde_json::to_value(&event).unwrap()) {
            assert_eq!(read(&more.to_string()), Err("refused"), "{more}");
        }
    }
    let state = serde_json::to_value(fold(&busy())).unwrap();
    assert!(serde_json::from_value::<State>(state.clone()).is_ok());
    for more in with_more(&state) {
        assert!(serde_json::from_value::<State>(more.clone()).is_err(), "{more}");
    }
}

/// The value with one more field, once for each object in it.
fn with_more(value: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    match value {
        Value::Object(fields) => {
            let mut more = fields.clone();
            more.insert("more".to_owned(), 1.into());
            found.push(Value::Object(more));
            for (name, field) in fields {
                found.extend(with_more(field).into_iter().map(|more| {
                    let mut fields = fields.clone();
                    fields.insert(name.clone(), more);
                    Value::Object(fields)
                }));
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                found.extend(with_more(item).into_iter().map(|more| {
                    let mut items = items.clone();
                    items[place] = more;
                    Value::Array(items)
                }));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    found
}

/// Every event there is, in every form that is stored.
fn stored() -> Vec<Event> {
    let reason = |reason| {
        let outcome = Outcome { number: 2, n: 3, id: message("a", "m").id, reason };
        Event::Dead(Dead { arrival: 2, from: id("a"), outcome })
    };
    let kept = AgentState(serde_json::value::RawValue::from_string("[1,2]".to_owned()).unwrap());
    let mut events = busy();
    events.extend([
        Event::Taken { turn: 2, taken: vec![3] },
        Event::TurnEnded {
            turn: 2,
            outcome: TurnOutcome::Completed,
            handled: vec![2, 3],
            state: Some(kept),
            again: true,
        },
        ended(3, TurnOutcome::Interrupted, &[]),
        ended(4, TurnOutcome::GivenBack, &[]),
        reason(DeadReason::Closed),
        reason(DeadReason::Failed),
        told("a", 1),
        delivered("b", 3, &[2]),
        Event::Closed,
    ]);
    events
}

#[test]
fn m51_events_and_snapshots_are_spelled_as_they_always_were() {
    let lines: Vec<&str> = include_str!("../golden/events-v1.jsonl").lines().collect();
    let spelled: Vec<String> =
        stored().iter().map(|event| serde_json::to_string(event).unwrap()).collect();
    assert_eq!(spelled, lines);
    let read: Vec<Event> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read, stored());
    let mut state = fold(&busy());
    state.apply(&ended(2, TurnOutcome::GivenBack, &[])).unwrap();
    let golden = include_str!("../golden/state-v1.json").trim_end();
    assert_eq!(serde_json::to_string(&state).unwrap(), golden);
    assert_eq!(serde_json::from_str::<State>(golden).unwrap(), state);
}

#[test]
fn m34_a_raw_body_and_a_kept_state_survive_journal_and_snapshot_byte_for_byte() {
    let text = r#"{"b":1.50,"a":1e3,"a":[ 1 ,2],"c":"\u0000\ud83d\ude00"}"#;
    let mut raw = (*message("a", "m")).clone();
    raw.body = Body::json(text).unwrap();
    let Event::Accepted { from, n, arrival, settled, .. } = accepted("a", 1, 1, 0) else {
        unreachable!()
    };
    let kept = AgentState(serde_json::value::RawValue::from_string(text.to_owned()).unwrap());
    let events = [
        Event::Created(created().into()),
        Event::Accepted { from, n, arrival, settled, message: raw.into() },
        started(1, 1, &[1]),
        Event::Queued { target: id("b"), n: 1, message: message("s", "\u{0}\u{7f}\"\\ä😀") },
        Event::TurnEnded {
            turn: 1,
            outcome: TurnOutcome::Completed,
            handled: vec![1],
            state: Some(kept.clone()),
            again: true,
        },
        accepted("a", 2, 2, 1),
    ];
    let json = serde_json::to_string(&events).unwrap();
    assert!(json.contains(text));
    let read: Vec<Event> = serde_json::from_str(&json).unwrap();
    assert_eq!(read, events);
    let state = fold(&read[..3]);
    let json = serde_json::to_string(&state).unwrap();
    assert!(json.contains(text));
    assert_eq!(serde_json::from_str::<State>(&json).unwrap(), state);
    let state = fold(&read);
    let again: State = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
    assert_eq!(again, state);
    assert_eq!(again.agent.unwrap().0.get(), text);
}

#[test]
fn m55_answers_wait_for_a_snapshot_that_is_on_its_way_and_go_on_after_it() {
    play(
        "
        > mail a 1 x
          [1] accepted a1 as #1 x (settled 0)
          urgent
        > snapshot
          [2] snapshot
        > mail a 1 x
          urgent
        > send b:y
          [3] queued b1 y
          urgent
        > flush 1
          answer a upto 1
        > flush 2
          answer a upto 1
        > flush 3
          receipts b1
          dispatch b from 1: y (settled 0)
          wake 1000
        ",
    );
}

#[test]
fn m54_a_long_failure_is_cut_and_its_frame_stays_within_its_bound() {
    let mut desk = Desk::new(limits());
    desk.command("ready + mail a 1 x");
    desk.command("flush");
    let (code, text) = ("\u{1}".repeat(5_000), "\u{1}".repeat(5_000));
    let told = desk.command(&format!("fail {code} {text}"));
    assert!(told.contains(&"\u{1}".repeat(64)) && !told.contains(&"\u{1}".repeat(65)), "{told}");
}

#[test]
fn m37_a_close_buries_a_large_inbox_in_frames_of_bounded_size() {
    let mut desk = Desk::new(limits());
    let bodies = vec!["m"; 600].join(" ");
    desk.command(&format!("ready + mail a 1 {bodies}"));
    desk.command("flush");
    let lines = |told: &str, what: &str| told.lines().filter(|line| line.contains(what)).count();
    let first = desk.command("close");
    assert_eq!((lines(&first, "dead"), lines(&first, "] closed")), (256, 0));
    // Neither a turn nor an acceptance comes between.
    let late = desk.command("ready + mail a 601 late");
    assert_eq!((lines(&late, "refused a601 closed"), lines(&late, "started")), (1, 0), "{late}");
    let second = desk.command("flush");
    assert_eq!((lines(&second, "dead"), lines(&second, "] closed")), (256, 0));
    let third = desk.command("flush");
    assert_eq!((lines(&third, "dead"), lines(&third, "] closed")), (88, 1));
    let last = desk.command("flush");
    assert_eq!((lines(&last, "release 88"), lines(&last, "  closed")), (1, 1), "{last}");
    let told = desk.command("noted a 64");
    assert_eq!(lines(&told, "told a upto 64"), 1);
    assert!(desk.command("flush").contains("report a 65:65 closed"));
}

#[test]
fn m99_a_session_that_failed_buries_as_failed_over_a_restart_and_a_close_meanwhile() {
    let mut desk = Desk::new(limits());
    let bodies = vec!["m"; 600].join(" ");
    desk.command(&format!("ready + mail a 1 {bodies}"));
    desk.command("flush");
    let lines = |told: &str, what: &str| told.lines().filter(|line| line.contains(what)).count();
    let first = desk.command("bury");
    assert_eq!((lines(&first, "dead"), lines(&first, "] closed")), (256, 0));
    desk.command("flush");
    // The frame after it is lost with its load.
    desk.command("restart");
    let second = desk.command("bury");
    assert_eq!((lines(&second, "dead"), lines(&second, "] closed")), (256, 0));
    let third = desk.command("close");
    assert_eq!((lines(&third, "dead"), lines(&third, "] closed")), (88, 1));
    let last = desk.command("flush");
    assert_eq!((lines(&last, "release 88"), lines(&last, "  closed")), (1, 1), "{last}");
    assert_eq!(desk.command("bury + ready"), "");
    desk.command("noted a 64");
    let told = desk.command("flush");
    assert!(told.contains("report a 65:65 failed") && told.contains("128:128 failed"), "{told}");
    let late = desk.command("mail a 601 late");
    assert_eq!(lines(&late, "refused a601 closed"), 1, "{late}");
}
