//! The delivery protocol, searched exhaustively over the real session machine.

use std::time::{Duration, Instant};

use callboard::config::Limits;

use super::search_break::Broken;
use super::search_explore::{Found, explore};
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

fn plan(sessions: usize, pairs: &[(usize, usize, u8)]) -> Plan {
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
        broken: Broken::None,
    }
}

#[track_caller]
fn holds(name: &str, plan: &Plan) -> Found {
    let started = Instant::now();
    let found = explore(plan);
    let time = started.elapsed();
    eprintln!(
        "{name}: {} states, {} at rest, depth {}, {} faults, {time:.1?}",
        found.states, found.rests, found.depth, plan.faults
    );
    assert!(found.violation.is_none(), "{name}: {:?}", found.violation);
    found
}

#[test]
fn one_to_one() {
    for faults in 0..=3 {
        holds("one to one", &Plan { faults, ..plan(2, &[(0, 1, 2)]) });
    }
}

#[test]
fn turns() {
    for faults in 0..=3 {
        holds("turns", &Plan { faults, ready: vec![1], ..plan(2, &[(0, 1, 2)]) });
    }
}

#[test]
fn closing() {
    for faults in 0..=2 {
        let closes = Some(1);
        holds("closing", &Plan { faults, closes, ready: vec![1], ..plan(2, &[(0, 1, 2)]) });
    }
}

#[test]
fn revoking() {
    for faults in 0..=3 {
        holds("revoking", &Plan { faults, revokes: true, ..plan(2, &[(0, 1, 2)]) });
    }
}

#[test]
fn two_to_one() {
    for faults in 0..=2 {
        holds("two to one", &Plan { faults, ..plan(3, &[(0, 2, 1), (1, 2, 1)]) });
    }
}
