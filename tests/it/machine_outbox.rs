//! The sender's rules: receipts, the window, what is sent again and what is settled.

use super::machine_script::play;

#[test]
fn m26_a_receipt_and_a_dispatch_wait_for_the_flush() {
    play(
        "
        > send b:x c:y b:z
          [1] queued b1 x
          [1] queued c1 y
          [1] queued b2 z
          urgent
        > flush
          receipts b1 c1 b2
          dispatch b from 1: x z (settled 0)
          dispatch c from 1: y (settled 0)
          wake 1000
        ",
    );
}

#[test]
fn m26_a_flush_lets_go_only_of_what_it_covers() {
    play(
        "
        > send b:x
          [1] queued b1 x
          urgent
        > send b:y
          [2] queued b2 y
          urgent
        > flush 1
          receipts b1
          dispatch b from 1: x (settled 0)
          wake 1000
        > flush 2
          receipts b2
          dispatch b from 2: y (settled 0)
        ",
    );
}

#[test]
fn m29_m30_a_window_of_numbers_is_on_its_way_each_once_and_no_more() {
    play(
        "
        > send b:x b:y b:z b:w
          [1] queued b1 x
          [1] queued b2 y
          [1] queued b3 z
          [1] queued b4 w
          urgent
        > flush
          receipts b1 b2 b3 b4
          dispatch b from 1: x y (settled 0)
          wake 1000
        > answer b 1
          [2] delivered b upto 1
          dispatch b from 3: z (settled 0)
        > answer b 3
          [3] delivered b upto 3
          dispatch b from 4: w (settled 0)
        > answer b 4
          [4] delivered b upto 4
        > flush
        > inspect
          inspected idle pending 0 taken 0 unsettled 0 attempts 0 quiet true
        ",
    );
}

#[test]
fn m37_a_settled_mark_travels_only_when_it_is_on_disk() {
    play(
        "
        > send b:x b:y b:z
          [1] queued b1 x
          [1] queued b2 y
          [1] queued b3 z
          urgent
        > flush
          receipts b1 b2 b3
          dispatch b from 1: x y (settled 0)
          wake 1000
        > answer b 1
          [2] delivered b upto 1
          dispatch b from 3: z (settled 0)
        > answer b 2
          [3] delivered b upto 2
        > send b:w
          [4] queued b4 w
          urgent
        > flush
          receipts b4
          dispatch b from 4: w (settled 2)
        > answer b 3
          [5] delivered b upto 3
        > send b:v
          [6] queued b5 v
          urgent
        > flush
          receipts b5
          dispatch b from 5: v (settled 3)
        ",
    );
}

#[test]
fn m37_a_sender_that_was_loaded_again_still_knows_its_settled_mark() {
    play(
        "
        > send b:x
          [1] queued b1 x
          urgent
        > flush
          receipts b1
          dispatch b from 1: x (settled 0)
          wake 1000
        > answer b 1 1:revoked
          [2] delivered b upto 1 refused 1 revoked
        > flush
        > restart
        > send b:y
          [1] queued b2 y
          urgent
        > flush
          receipts b2
          dispatch b from 2: y (settled 1)
          wake 1000
        ",
    );
}

#[test]
fn m37_refusals_are_learned_once_each() {
    play(
        "
        > send b:x b:y b:z
          [1] queued b1 x
          [1] queued b2 y
          [1] queued b3 z
          urgent
        > flush
          receipts b1 b2 b3
          dispatch b from 1: x y (settled 0)
          wake 1000
        > answer b 2 2:revoked
          [2] delivered b upto 2 refused 2 revoked
          dispatch b from 3: z (settled 0)
        > answer b 2 2:revoked
        > answer b 3 2:revoked
          [3] delivered b upto 3
        > flush
        ",
    );
}

#[test]
fn m29_a_gap_is_answered_by_sending_again_once_for_each_mark_and_load() {
    play(
        "
        > send b:x b:y
          [1] queued b1 x
          [1] queued b2 y
          urgent
        > flush
          receipts b1 b2
          dispatch b from 1: x y (settled 0)
          wake 1000
        > answer b 0 gap=4
          dispatch b from 1: x y (settled 0)
        > answer b 0 gap=4
        > answer b 1 gap=4
          [2] delivered b upto 1
          dispatch b from 2: y (settled 0)
        > answer b 1 gap=5
          dispatch b from 2: y (settled 0)
        ",
    );
}

#[test]
fn m36_a_busy_target_is_left_alone_until_it_calls() {
    play(
        "
        > send b:x b:y
          [1] queued b1 x
          [1] queued b2 y
          urgent
        > flush
          receipts b1 b2
          dispatch b from 1: x y (settled 0)
          wake 1000
        > busy b 1
        > send b:z
          [2] queued b3 z
          urgent
        > flush
          receipts b3
        > answer b 0 gap=1
        > room b
          dispatch b from 1: x y (settled 0)
        ",
    );
}

#[test]
fn m36_a_busy_target_that_never_calls_is_tried_after_the_backoff() {
    play(
        "
        > send b:x
          [1] queued b1 x
          urgent
        > flush
          receipts b1
          dispatch b from 1: x (settled 0)
          wake 1000
        > busy b 1
        > tick 999
        > tick 1000
          dispatch b from 1: x (settled 0)
          wake 3000
        > busy b 1
        > tick 3000
          dispatch b from 1: x (settled 0)
          wake 7000
        > tick 7000
          dispatch b from 1: x (settled 0)
          wake 15000
        > answer b 1
          [2] delivered b upto 1
        > flush
        > tick 20000
          wake never
        ",
    );
}

#[test]
fn m36_mail_sent_after_a_busy_and_an_answer_is_tried_after_the_backoff() {
    play(
        "
        > send b:x
          [1] queued b1 x
          urgent
        > flush
          receipts b1
          dispatch b from 1: x (settled 0)
          wake 1000
        > busy b 1
        > answer b 1
          [2] delivered b upto 1
        > send b:y
          [3] queued b2 y
          urgent
        > flush
          receipts b2
        > tick 1000
          dispatch b from 2: y (settled 1)
          wake 3000
        ",
    );
}

#[test]
fn m36_one_busy_target_does_not_hold_up_another() {
    play(
        "
        > send b:x c:y
          [1] queued b1 x
          [1] queued c1 y
          urgent
        > flush
          receipts b1 c1
          dispatch b from 1: x (settled 0)
          dispatch c from 1: y (settled 0)
          wake 1000
        > busy b 1
        > send b:z c:w
          [2] queued b2 z
          [2] queued c2 w
          urgent
        > flush
          receipts b2 c2
          dispatch c from 2: w (settled 0)
        ",
    );
}

#[test]
fn m28_what_was_lost_with_the_targets_load_is_sent_again_in_order() {
    play(
        "
        > send b:x b:y b:z
          [1] queued b1 x
          [1] queued b2 y
          [1] queued b3 z
          urgent
        > flush
          receipts b1 b2 b3
          dispatch b from 1: x y (settled 0)
          wake 1000
        > answer b 1
          [2] delivered b upto 1
          dispatch b from 3: z (settled 0)
        > lost b
          dispatch b from 2: y z (settled 0)
        ",
    );
}

#[test]
fn m28_f27_a_restart_sends_all_that_is_unsettled_and_nothing_that_was_not_on_disk() {
    play(
        "
        > send b:x
          [1] queued b1 x
          urgent
        > flush
          receipts b1
          dispatch b from 1: x (settled 0)
          wake 1000
        > send b:lost
          [2] queued b2 lost
          urgent
        > restart
          dispatch b from 1: x (settled 0)
          wake 1000
        > send b:new
          [1] queued b2 new
          urgent
        > flush
          receipts b2
          dispatch b from 2: new (settled 0)
        ",
    );
}

#[test]
fn m28_an_answer_beyond_what_was_sent_changes_nothing() {
    play(
        "
        > answer b 1
        > send b:x
          [1] queued b1 x
          urgent
        > flush
          receipts b1
          dispatch b from 1: x (settled 0)
          wake 1000
        > answer b 2
        > answer c 1
        > busy c 1
        > room c
        > lost c
        ",
    );
}
