//! Few open files and many sessions.
//!
//! **Boundary**: each core has a thread with a few open files of its own, so that the bound of 64
//! is for machines of few cores; elsewhere the binary is shown two.

use std::process::{Command, Stdio};

use super::gate;
use super::rounds::{CLEANED, Replay};
use crate::cli::program::{Finished, Running};

#[test]
fn f43_two_thousand_sessions_live_with_sixty_four_open_files() {
    if !gate::is_wanted("sixty-four open files") {
        return;
    }
    for segment_bytes in ["16384", "65536"] {
        let home = tempfile::tempdir().expect("a directory");
        let words = "load --sessions 2000 --pairs random --messages 8000 --json --segment-bytes";
        let mut args: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let data = home.path().join("data").to_str().expect("a path is text").to_owned();
        args.extend([segment_bytes.to_owned(), "--data".to_owned(), data]);
        let report = narrow(&args).summary("a load with few files");
        assert_eq!((&report["lost"], &report["duplicates"]), (&0.into(), &0.into()), "{report}");
        assert_eq!(report["handled"], 8_000, "{report}");
    }
    let replay = Replay::new(usize::MAX, &CLEANED);
    replay.assert_whole(narrow(&replay.args()), "a replay with few files");
    // And once more, so that the start reads all of it.
    replay.assert_whole(narrow(&replay.args()), "a second start with few files");
}

fn narrow(args: &[String]) -> Finished {
    let mut command = Command::new("sh");
    let script = "ulimit -n 64; two=$(command -v taskset >/dev/null && echo 'taskset -c 0,1'); \
                  [ \"$(nproc)\" -gt 2 ] || two=; exec $two \"$0\" \"$@\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_callboard")]).args(args);
    command.env_remove("CALLBOARD_LOG").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = Running::start(command);
    run.wait_until(|| false);
    run.finish()
}
