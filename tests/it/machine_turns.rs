//! Turns: when they begin, what they are offered, and what ends with them.

use super::machine_script::play;

#[test]
fn m24_a_turn_begins_when_its_attempt_is_on_disk() {
    play(
        "
        > ready
        > mail a 1 x
          [1] accepted a1 as #1 x (settled 0)
          [1] turn 1 started, attempt 1: #1
          urgent
        > flush
          release 1
          begin 1, attempt 1: #1
          answer a upto 1
        > end ready
          [2] turn 1 completed: #1
          urgent
        > flush
          ended 1
        ",
    );
}

#[test]
fn m25_mail_that_arrives_during_a_turn_is_offered_before_its_end() {
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
        > steer
          steered:
        > mail a 2 y
          [2] accepted a2 as #2 y (settled 0)
          urgent
        > steer
          [3] turn 1 took #2
          urgent
        > mail a 3 z
          [4] accepted a3 as #3 z (settled 0)
          urgent
        > flush
          answer a upto 2
          release 1
          steered: #2
          answer a upto 3
        > end ready b:answer
          [5] turn 1 took #3
          urgent
        > flush
          release 1
          steered: #3
        > end ready b:answer
          [6] queued b1 answer
          [6] turn 1 completed: #1 #2 #3
          urgent
        > flush
          ended 1 b1
          dispatch b from 1: answer (settled 0)
          wake 1000
        ",
    );
}

#[test]
fn m25_a_turn_takes_no_more_than_its_limit_and_the_rest_begins_the_next() {
    play(
        "
        > ready + mail a 1 v w x y z
          [1] accepted a1 as #1 v (settled 0)
          [1] accepted a2 as #2 w (settled 0)
          [1] accepted a3 as #3 x (settled 0)
          [1] accepted a4 as #4 y (settled 0)
          [1] accepted a5 as #5 z (settled 0)
          [1] turn 1 started, attempt 1: #1 #2 #3
          urgent
        > flush
          release 3
          begin 1, attempt 1: #1 #2 #3
          answer a upto 5
        > steer
          steered:
        > end ready
          [2] turn 1 completed: #1 #2 #3
          [2] turn 2 started, attempt 1: #4 #5
          urgent
        > flush
          ended 1
          release 2
          begin 2, attempt 1: #4 #5
        ",
    );
}

#[test]
fn m25_a_firm_end_leaves_what_has_arrived_for_the_next_turn() {
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
        > mail a 2 y
          [2] accepted a2 as #2 y (settled 0)
          urgent
        > flush
          answer a upto 2
        > end firm
          [3] turn 1 completed: #1
          urgent
        > flush
          ended 1
        > ready
          [4] turn 2 started, attempt 1: #2
          urgent
        ",
    );
}

#[test]
fn m28_f13_staged_sends_and_the_end_are_one_frame() {
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
        > end state=7 b:y c:z
          [2] queued b1 y
          [2] queued c1 z
          [2] turn 1 completed: #1 keeps 7
          urgent
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
        > end state=7 b:y c:z
          [3] queued b1 y
          [3] queued c1 z
          [3] turn 2 completed: #1 keeps 7
          urgent
        > flush
          ended 2 b1 c1
          dispatch b from 1: y (settled 0)
          dispatch c from 1: z (settled 0)
          wake 1100
        > restart
          dispatch b from 1: y (settled 0)
          dispatch c from 1: z (settled 0)
          wake 1100
        ",
    );
}

#[test]
fn m24_a_wish_survives_a_restart_and_a_completed_turn_settles_it() {
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
        > end again
          [2] turn 1 completed: #1 again
          urgent
        > flush
          ended 1
        > restart
        > ready
          [1] turn 2 started, attempt 1:
          urgent
        > flush
          begin 2, attempt 1:
        > end
          [2] turn 2 completed:
          urgent
        > flush
          ended 2
        > ready
        ",
    );
}

#[test]
fn m24_a_held_wish_waits_and_mail_does_not() {
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
        > hold on + end again ready
          [2] turn 1 completed: #1 again
          urgent
        > flush
          ended 1
        > mail a 2 y
          [3] accepted a2 as #2 y (settled 0)
          [3] turn 2 started, attempt 1: #2
          urgent
        > flush
          release 1
          begin 2, attempt 1: #2
          answer a upto 2
        > end again ready
          [4] turn 2 completed: #2 again
          urgent
        > flush
          ended 2
        > hold off
          [5] turn 3 started, attempt 1:
          urgent
        ",
    );
}

#[test]
fn m24_a_backoff_that_is_over_asks_for_no_more_ticks() {
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
        > fail BAD
          [2] turn 1 failed BAD:
          urgent
        > ready
          wake 100
        > tick 100
          [3] turn 2 started, attempt 2: #1
          urgent
          wake never
        > flush
          ended 1
          begin 2, attempt 2: #1
        > end ready
          [4] turn 2 completed: #1
          urgent
        > flush
          ended 2
        > tick 200
        ",
    );
}

#[test]
fn m24_a_look_after_the_backoff_needs_no_room_and_leaves_the_turn_to_the_time_itself() {
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
        > fail BAD
          [2] turn 1 failed BAD:
          urgent
        > ready
          wake 100
        > inspect-at 101
          urgent
        > tick 101
          [3] turn 2 started, attempt 2: #1
          urgent
          wake never
        ",
    );
}

#[test]
fn m37_a_close_ends_the_open_turn_and_buries_what_it_had_taken() {
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
        > mail b 1 z
          [2] accepted b1 as #3 z (settled 0)
          urgent
        > close
          [3] turn 1 interrupted:
          [3] dead #1 a1 closed, outcome 1
          [3] dead #2 a2 closed, outcome 2
          [3] dead #3 b1 closed, outcome 1
          [3] closed
          urgent
          wake 1000
        > end
        > flush
          answer b upto 1
          ended 1
          report a 1:1 closed 2:2 closed
          report b 1:1 closed
          release 1
          closed
        > noted a 2
          [4] told a upto 2
        > noted b 1
          [5] told b upto 1
        > flush
        ",
    );
}
