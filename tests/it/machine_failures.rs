//! Turns that fail or are broken off: tried again one by one, then dead.

use callboard::config::Limits;

use super::machine_script::{Desk, limits, play, play_with};

#[test]
fn m36_after_a_failure_messages_are_offered_one_at_a_time_and_new_mail_waits() {
    play(
        "
        > ready + mail a 1 x y
          [1] accepted a1 as #1 x (settled 0)
          [1] accepted a2 as #2 y (settled 0)
          [1] turn 1 started, attempt 1: #1 #2
          urgent
        > flush
          release 2
          begin 1, attempt 1: #1 #2
          answer a upto 2
        > fail BAD no luck
          [2] turn 1 failed BAD:
          urgent
        > ready + mail a 3 z
          [3] accepted a3 as #3 z (settled 0)
          urgent
          wake 100
        > flush
          ended 1
          answer a upto 3
        > tick 99
        > tick 100
          [4] turn 2 started, attempt 2: #1
          urgent
          wake never
        > flush
          begin 2, attempt 2: #1
        > steer
          steered:
        > end ready
          [5] turn 2 completed: #1
          [5] turn 3 started, attempt 2: #2
          urgent
        > flush
          ended 2
          begin 3, attempt 2: #2
        > end ready
          [6] turn 3 completed: #2
          [6] turn 4 started, attempt 1: #3
          urgent
        > flush
          ended 3
          release 1
          begin 4, attempt 1: #3
        > end ready
          [7] turn 4 completed: #3
          urgent
        > flush
          ended 4
        ",
    );
}

#[test]
fn m36_f24_a_message_that_fails_too_often_is_dead_and_its_sender_is_told() {
    play(
        "
        > ready + mail a 1 x y
          [1] accepted a1 as #1 x (settled 0)
          [1] accepted a2 as #2 y (settled 0)
          [1] turn 1 started, attempt 1: #1 #2
          urgent
        > flush
          release 2
          begin 1, attempt 1: #1 #2
          answer a upto 2
        > fail BAD
          [2] turn 1 failed BAD:
          urgent
        > flush
          ended 1
        > ready
          wake 100
        > tick 100
          [3] turn 2 started, attempt 2: #1
          urgent
          wake never
        > flush
          begin 2, attempt 2: #1
        > fail BAD
          [4] turn 2 failed BAD:
          [4] dead #1 a1 attempts, outcome 1
          urgent
          wake 1100
        > flush
          ended 2
          report a 1:1 attempts
        > ready
          wake 200
        > tick 300
          [5] turn 3 started, attempt 2: #2
          urgent
          wake 1100
        > flush
          begin 3, attempt 2: #2
        > end ready
          [6] turn 3 completed: #2
          urgent
        > noted a 1
          [7] told a upto 1
        > flush
          ended 3
        > inspect
          inspected idle pending 0 taken 0 unsettled 0 attempts 0 quiet true
        ",
    );
}

#[test]
fn m59_f16_a_turn_that_was_open_at_a_kill_is_interrupted_and_its_mail_is_tried_again() {
    play(
        "
        > ready + mail a 1 x
          [1] accepted a1 as #1 x (settled 0)
          [1] turn 1 started, attempt 1: #1
          urgent
        > flush
          release 1
          begin 1, attempt 1: #1
          answer a upto 1
        > restart
          [1] turn 1 interrupted:
          urgent
        > ready
          wake 100
        > tick 100
          [2] turn 2 started, attempt 2: #1
          urgent
          wake never
        > flush
          ended 1
          begin 2, attempt 2: #1
        > restart
          [1] turn 2 interrupted:
          [1] dead #1 a1 attempts, outcome 1
          urgent
          wake 1100
        > flush
          ended 2
          report a 1:1 attempts
        ",
    );
}

#[test]
fn m59_a_turn_that_never_reached_the_disk_was_no_attempt() {
    play(
        "
        > mail a 1 x
          [1] accepted a1 as #1 x (settled 0)
          urgent
        > flush
          answer a upto 1
        > ready
          [2] turn 1 started, attempt 1: #1
          urgent
        > restart
        > ready
          [1] turn 1 started, attempt 1: #1
          urgent
        ",
    );
}

#[test]
fn m36_a_driver_that_leaves_gives_its_mail_back() {
    play(
        "
        > ready + mail a 1 x
          [1] accepted a1 as #1 x (settled 0)
          [1] turn 1 started, attempt 1: #1
          urgent
        > flush
          release 1
          begin 1, attempt 1: #1
          answer a upto 1
        > interrupt + unready
          [2] turn 1 interrupted:
          urgent
        > flush
          ended 1
        > tick 100
        > ready
          [3] turn 2 started, attempt 2: #1
          urgent
        ",
    );
}

#[test]
fn m24_a_wish_for_another_turn_is_tried_a_bounded_number_of_times() {
    play(
        "
        > ready + mail a 1 x
          [1] accepted a1 as #1 x (settled 0)
          [1] turn 1 started, attempt 1: #1
          urgent
        > flush
          release 1
          begin 1, attempt 1: #1
          answer a upto 1
        > end again ready
          [2] turn 1 completed: #1 again
          [2] turn 2 started, attempt 1:
          urgent
        > flush
          ended 1
          begin 2, attempt 1:
        > fail BAD
          [3] turn 2 failed BAD: again
          urgent
        > ready
          wake 100
        > tick 100
          [4] turn 3 started, attempt 2:
          urgent
          wake never
        > flush
          ended 2
          begin 3, attempt 2:
        > fail BAD
          [5] turn 3 failed BAD:
          urgent
        > ready
        > flush
          ended 3
        > inspect
          inspected idle pending 0 taken 0 unsettled 0 attempts 0 quiet true
        ",
    );
}

#[test]
fn m36_one_attempt_may_be_all_there_is() {
    play_with(
        Limits { attempts_max: 1, ..limits() },
        "
        > ready + mail a 1 x + mail b 1 y
          [1] accepted a1 as #1 x (settled 0)
          [1] accepted b1 as #2 y (settled 0)
          [1] turn 1 started, attempt 1: #1 #2
          urgent
        > flush
          release 2
          begin 1, attempt 1: #1 #2
          answer a upto 1
          answer b upto 1
        > fail BAD
          [2] turn 1 failed BAD:
          [2] dead #1 a1 attempts, outcome 1
          [2] dead #2 b1 attempts, outcome 1
          urgent
          wake 1000
        > flush
          ended 1
          report a 1:1 attempts
          report b 1:1 attempts
        ",
    );
}

#[test]
fn m39_what_is_said_to_no_open_turn_changes_nothing() {
    play(
        "
        > end
        > fail BAD
        > interrupt
        > steer
          steered:
        ",
    );
}

#[test]
fn m39_what_is_said_of_a_turn_that_is_over_changes_nothing_of_the_next() {
    let mut desk = Desk::new(limits());
    desk.command("ready + mail a 1 one");
    desk.command("flush");
    // The body hears of the end when it is on disk, and speaks of its turn until then.
    desk.command("interrupt + ready");
    desk.command("tick 60000");
    assert_eq!(desk.command("end turn=1 firm"), "");
    assert_eq!(desk.command("fail BAD turn=1"), "");
    assert_eq!(desk.command("mail a 2 two + steer turn=1").matches("took").count(), 0);
    let told = desk.command("end turn=2 firm");
    assert!(told.contains("turn 2 completed"), "{told}");
}
