//! The target's rule: every number is decided once, in order.

use super::machine_script::play;

#[test]
fn m27_an_answer_waits_until_the_acceptance_is_on_disk() {
    play(
        "
        > mail a 1 x y
          [1] accepted a1 as #1 x (settled 0)
          [1] accepted a2 as #2 y (settled 0)
          urgent
        > flush
          answer a upto 2
        ",
    );
}

#[test]
fn m28_a_duplicate_is_answered_again_and_writes_nothing() {
    play(
        "
        > mail a 1 x
          [1] accepted a1 as #1 x (settled 0)
          urgent
        > flush
          answer a upto 1
        > mail a 1 x
          answer a upto 1
        > mail a 1 x y
          [2] accepted a2 as #2 y (settled 0)
          urgent
        > flush
          answer a upto 2
        ",
    );
}

#[test]
fn m27_the_answer_to_a_duplicate_waits_for_what_it_is_a_duplicate_of() {
    play(
        "
        > mail a 1 x
          [1] accepted a1 as #1 x (settled 0)
          urgent
        > mail a 1 x
          urgent
        > mail b 1 z
          [2] accepted b1 as #2 z (settled 0)
          urgent
        > mail a 1 x
          urgent
        > flush 1
          answer a upto 1
          answer a upto 1
        > flush
          answer b upto 1
          answer a upto 1
        ",
    );
}

#[test]
fn m29_a_gap_is_answered_with_the_mark_and_the_load_and_writes_nothing() {
    play(
        "
        > mail a 2 y
          answer a upto 0 gap in load 1
        > mail a 1 x
          [1] accepted a1 as #1 x (settled 0)
          urgent
        > mail a 3 z
          urgent
        > flush
          answer a upto 1
          answer a upto 1 gap in load 1
        > restart
        > mail a 3 z
          answer a upto 1 gap in load 2
        ",
    );
}

#[test]
fn m29_two_dispatches_in_one_step_are_answered_once() {
    play(
        "
        > mail a 1 x + mail a 2 y + mail b 1 z
          [1] accepted a1 as #1 x (settled 0)
          [1] accepted a2 as #2 y (settled 0)
          [1] accepted b1 as #3 z (settled 0)
          urgent
        > flush
          answer a upto 2
          answer b upto 1
        ",
    );
}

#[test]
fn m37_a_refusal_is_in_every_answer_until_its_sender_has_settled_it() {
    play(
        "
        > mail a 1 x revoked
          [1] refused a1 revoked (settled 0)
          urgent
        > flush
          release 1
          answer a upto 1 refused 1 revoked
        > mail a 1 x
          answer a upto 1 refused 1 revoked
        > mail a 2 y
          [2] accepted a2 as #1 y (settled 0)
          urgent
        > flush
          answer a upto 2 refused 1 revoked
        > restart
        > mail a 2 y
          answer a upto 2 refused 1 revoked
        > mail a 3 z settled=1
          [1] accepted a3 as #2 z (settled 1)
          urgent
        > flush
          answer a upto 3
        ",
    );
}

#[test]
fn m37_what_was_accepted_before_the_edge_was_revoked_stays_accepted() {
    play(
        "
        > mail a 1 x
          [1] accepted a1 as #1 x (settled 0)
          urgent
        > mail a 1 x y revoked
          [2] refused a2 revoked (settled 0)
          urgent
        > flush
          answer a upto 1
          release 1
          answer a upto 2 refused 2 revoked
        ",
    );
}

#[test]
fn m37_a_closed_target_refuses_and_what_it_had_accepted_is_dead() {
    play(
        "
        > mail a 1 x y
          [1] accepted a1 as #1 x (settled 0)
          [1] accepted a2 as #2 y (settled 0)
          urgent
        > flush
          answer a upto 2
        > close
          [2] dead #1 a1 closed, outcome 1
          [2] dead #2 a2 closed, outcome 2
          [2] closed
          urgent
          wake 1000
        > mail a 3 z
          [3] refused a3 closed (settled 0)
          urgent
        > flush
          report a 1:1 closed 2:2 closed
          release 2
          closed
          release 1
          answer a upto 3 refused 3 closed
        > ready
        > close
          closed
        > restart
          report a 1:1 closed 2:2 closed
          wake 1000
        > ready + mail a 3 z
          answer a upto 3 refused 3 closed
        ",
    );
}

#[test]
fn m37_a_target_that_ended_refuses_by_the_verdict_of_the_route() {
    play(
        "
        > mail a 1 x closed
          [1] refused a1 closed (settled 0)
          urgent
        > flush
          release 1
          answer a upto 1 refused 1 closed
        ",
    );
}

#[test]
fn m28_f02_an_acceptance_that_never_reached_the_disk_is_made_again() {
    play(
        "
        > mail a 1 x
          [1] accepted a1 as #1 x (settled 0)
          urgent
        > restart
        > mail a 2 y
          answer a upto 0 gap in load 2
        > mail a 1 x y
          [1] accepted a1 as #1 x (settled 0)
          [1] accepted a2 as #2 y (settled 0)
          urgent
        > flush
          answer a upto 2
        ",
    );
}

#[test]
fn m26_an_inspection_waits_for_the_newest_append() {
    play(
        "
        > mail a 1 x
          [1] accepted a1 as #1 x (settled 0)
          urgent
        > inspect
          urgent
        > flush
          answer a upto 1
          inspected idle pending 1 taken 0 unsettled 0 attempts 0 quiet false
        > inspect
          inspected idle pending 1 taken 0 unsettled 0 attempts 0 quiet false
        ",
    );
}
