//! The delivery protocol, searched exhaustively over the real session machine.

use std::time::{Duration, Instant};

use callboard::config::Limits;

use super::search_break::Broken;
use super::search_explore::explore;
use super::search_ghost::{
    EARLY_ANSWER, EARLY_DISPATCH, EARLY_MARK, MISLED, NO_OUTCOME, ORDER, REUSED, SETTLED_TWICE,
    TWICE, UNKNOWN, Violation,
};
use super::search_world::{Kind, Plan};

const ALL: [Kind; 8] = [
    Kind::Busy,
    Kind::Group,
    Kind::Kill,
    Kind::Panic,
    Kind::Unload,
    Kind::Duplicate,
    Kind::Early,
    Kind::Turn,
];

pub(crate) fn plan(sessions: usize, pairs: &[(usize, usize, u8)]) -> Plan {
    let limits = Limits {
        window: 2,
        steers_max: 2,
        attempts_max: 2,
        retry_backoff: Duration::from_millis(1),
        resend_after: Duration::from_millis(1),
        ..Limits::default()
    };
    Plan {
        sessions,
        pairs: pairs.to_vec(),
        ready: Vec::new(),
        limits,
        faults: 1,
        kinds: ALL.to_vec(),
        closes: None,
        revokes: false,
        told: true,
        broken: Broken::None,
        blind: false,
    }
}

/// Searches with 0 to `faults` faults, with one more in the long run.
#[track_caller]
fn holds(name: &str, plan: &Plan) {
    let long = std::env::var_os("CALLBOARD_LONG").is_some();
    for faults in 0..=plan.faults + u8::from(long) {
        let started = Instant::now();
        let found = explore(&Plan { faults, ..plan.clone() });
        let time = started.elapsed();
        println!(
            "{name}: {} states, {} at rest, depth {}, {faults} faults, {time:.1?}",
            found.states, found.rests, found.depth
        );
        assert!(found.violation.is_none(), "{name}: {:?}", found.violation);
    }
}

#[test]
fn m28_m57_f02_f03_f04_f06_f14_every_number_is_accepted_once_through_every_fault() {
    holds("two messages", &Plan { faults: 2, ..plan(2, &[(0, 1, 2)]) });
}

#[test]
fn m36_a_loss_that_nobody_tells_is_found_by_the_backoff() {
    holds("untold", &Plan { faults: 2, told: false, ..plan(2, &[(0, 1, 2)]) });
}

#[test]
fn m29_f27_order_holds_for_more_messages_than_the_window() {
    holds("three messages", &Plan { faults: 1, ..plan(2, &[(0, 1, 3)]) });
    let mut narrow = plan(2, &[(0, 1, 2)]);
    narrow.limits.window = 1;
    holds("a window of one", &Plan { faults: 2, ..narrow });
}

#[test]
fn m28_two_senders_do_not_disturb_each_other() {
    holds("two senders", &Plan { faults: 2, ..plan(3, &[(0, 2, 1), (1, 2, 1)]) });
}

#[test]
fn m28_two_targets_do_not_disturb_each_other() {
    holds("two targets", &Plan { faults: 1, ..plan(3, &[(0, 1, 1), (0, 2, 1)]) });
}

#[test]
fn m28_two_sessions_may_send_to_each_other() {
    holds("to and fro", &Plan { faults: 1, ..plan(2, &[(0, 1, 1), (1, 0, 1)]) });
}

#[test]
fn m37_a_revoked_edge_leaves_one_outcome_for_every_number() {
    holds("revoked", &Plan { faults: 2, revokes: true, ..plan(2, &[(0, 1, 2)]) });
}

#[test]
fn m37_a_closed_target_leaves_one_outcome_for_every_number() {
    let closes = Some(1);
    holds("closed", &Plan { faults: 1, closes, ready: vec![1], ..plan(2, &[(0, 1, 1)]) });
    holds("closed, two", &Plan { faults: 0, closes, ready: vec![1], ..plan(2, &[(0, 1, 2)]) });
}

#[test]
fn m36_taken_mail_is_handled_or_dead_and_its_sender_is_told() {
    holds("turns", &Plan { faults: 1, ready: vec![1], ..plan(2, &[(0, 1, 2)]) });
    let mut once = plan(2, &[(0, 1, 1)]);
    once.limits.attempts_max = 1;
    holds("one attempt", &Plan { faults: 2, ready: vec![1], ..once });
}

#[track_caller]
fn caught(plan: &Plan, expected: &[Violation]) {
    let found = explore(plan);
    let (violation, way) = found.violation.expect("the search must find what is broken");
    eprintln!("{:?}: {violation} after {} states: {way:?}", plan.broken, found.states);
    assert!(expected.contains(&violation), "{violation}");
}

fn broken(broken: Broken, faults: u8) -> Plan {
    Plan { broken, faults, ..plan(2, &[(0, 1, 2)]) }
}

fn blind(plan: Plan) -> Plan {
    Plan { blind: true, ..plan }
}

#[test]
fn m26_f01_a_dispatch_before_the_flush_is_caught() {
    caught(&broken(Broken::DispatchEarly, 0), &[EARLY_DISPATCH]);
    caught(&blind(broken(Broken::DispatchEarly, 1)), &[UNKNOWN]);
}

#[test]
fn m27_f01_an_answer_before_the_flush_is_caught() {
    caught(&broken(Broken::AnswerEarly, 0), &[EARLY_ANSWER]);
    caught(&blind(broken(Broken::AnswerEarly, 1)), &[MISLED]);
}

#[test]
fn m27_f01_an_answer_to_a_duplicate_before_the_flush_is_caught() {
    caught(&broken(Broken::AnswerDuplicateEarly, 1), &[EARLY_ANSWER]);
    caught(&blind(broken(Broken::AnswerDuplicateEarly, 2)), &[MISLED]);
}

#[test]
fn m53_frames_of_a_failed_load_written_later_are_caught() {
    caught(&blind(broken(Broken::LateFailed, 1)), &[REUSED, NO_OUTCOME]);
}

#[test]
fn m53_frames_of_a_panicked_load_written_later_are_caught() {
    caught(&blind(broken(Broken::LatePanicked, 1)), &[REUSED]);
}

#[test]
fn m53_frames_of_an_unloaded_load_written_later_are_caught() {
    caught(&blind(broken(Broken::LateUnloaded, 1)), &[SETTLED_TWICE]);
}

#[test]
fn m37_a_settled_mark_before_it_is_on_disk_is_caught() {
    caught(&broken(Broken::MarkEarly, 0), &[EARLY_MARK]);
    caught(&blind(Plan { revokes: true, ..broken(Broken::MarkEarly, 1) }), &[MISLED]);
}

#[test]
fn m36_resends_that_stop_after_one_busy_are_caught() {
    caught(&broken(Broken::OneBusy, 1), &["time goes on and nothing else does"]);
}

#[test]
fn m28_a_target_without_a_mark_is_caught() {
    caught(&broken(Broken::NoMark, 1), &[TWICE]);
}

#[test]
fn m28_a_seen_window_instead_of_a_mark_is_caught() {
    caught(&broken(Broken::SeenWindow, 1), &[TWICE]);
}

#[test]
fn m29_a_target_without_the_gap_rule_is_caught() {
    caught(&broken(Broken::NoGapRule, 1), &[ORDER]);
}

#[test]
fn m37_refusals_left_out_of_the_answer_are_caught() {
    caught(&Plan { revokes: true, ..broken(Broken::RefusalsLeftOut, 0) }, &[MISLED]);
}

#[test]
fn m37_a_sender_that_expires_mail_by_itself_is_caught() {
    caught(&broken(Broken::SenderExpires, 1), &[MISLED]);
}
