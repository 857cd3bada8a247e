//! Outcomes that are told later: numbered, told until noted, noted once.

use super::machine_script::play;

#[test]
fn m36_an_outcome_is_told_until_it_is_noted() {
    play(
        "
        > mail a 1 x
          [1] accepted a1 as #1 x (settled 0)
          urgent
        > close
          [2] dead #1 a1 closed, outcome 1
          [2] closed
          urgent
          wake 1000
        > flush
          answer a upto 1
          report a 1:1 closed
          release 1
          closed
        > tick 1000
          report a 1:1 closed
          wake 3000
        > tick 2999
        > tick 3000
          report a 1:1 closed
          wake 7000
        > noted a 1
          [3] told a upto 1
        > flush
        > tick 9000
          wake never
        ",
    );
}

#[test]
fn m36_an_outcome_is_told_again_after_a_restart_and_when_its_receiver_lost_it() {
    play(
        "
        > mail a 1 x
          [1] accepted a1 as #1 x (settled 0)
          urgent
        > close
          [2] dead #1 a1 closed, outcome 1
          [2] closed
          urgent
          wake 1000
        > flush
          answer a upto 1
          report a 1:1 closed
          release 1
          closed
        > lost a
          report a 1:1 closed
        > restart
          report a 1:1 closed
          wake 1000
        > noted a 1
          [1] told a upto 1
        ",
    );
}

#[test]
fn m36_outcomes_are_noted_once_and_in_order() {
    play(
        "
        > report b 2:5
          noted, tell b upto 0
        > report b 1:4 2:5
          [1] noted b upto 2
          urgent
        > report b 1:4 2:5
          urgent
        > flush
          noted, tell b upto 2
          noted, tell b upto 2
        > report b 2:5 3:6
          [2] noted b upto 3
          urgent
        > flush
          noted, tell b upto 3
        > restart
        > report b 3:6
          noted, tell b upto 3
        ",
    );
}

#[test]
fn m36_a_word_about_outcomes_that_do_not_exist_changes_nothing() {
    play(
        "
        > noted a 1
        > mail a 1 x
          [1] accepted a1 as #1 x (settled 0)
          urgent
        > close
          [2] dead #1 a1 closed, outcome 1
          [2] closed
          urgent
          wake 1000
        > flush
          answer a upto 1
          report a 1:1 closed
          release 1
          closed
        > noted a 2
        > noted a 1
          [3] told a upto 1
        > noted a 1
        ",
    );
}
