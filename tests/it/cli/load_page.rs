//! The page of a load, looked at in a browser that reaches no network.
//!
//! **Boundary**: where there is no browser, the test says so by name and is passed over; what the
//! page holds is checked without one.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::program::{Running, finished};

/// Browsers that take pictures without a screen.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// What a picture is to prefer, and the number by which the browser knows that.
const SCHEMES: [(&str, &str); 2] = [("light", "1"), ("dark", "0")];

#[test]
fn m114_a_page_looks_whole_in_a_browser_in_light_and_in_dark() {
    let Some(browser) = browser() else {
        println!("SKIPPED: none of {BROWSERS:?} is on this machine, so no page is looked at");
        return;
    };
    let home = tempfile::tempdir().expect("a directory");
    let page = home.path().join("page.html");
    let run = finished([
        "load",
        "--sessions",
        "20",
        "--rate",
        "2000",
        "--duration",
        "1200ms",
        "--durability",
        "memory",
        "--report",
        page.to_str().unwrap(),
    ]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let pictures = SCHEMES.map(|(name, number)| {
        let picture = home.path().join(name).with_extension("png");
        take(browser, &page, (&picture, number), home.path());
        fs::read(&picture).unwrap_or_else(|error| panic!("no picture in {name}: {error}"))
    });
    for (picture, (name, _)) in pictures.iter().zip(SCHEMES) {
        assert!(picture.starts_with(b"\x89PNG"), "the picture in {name} is none");
        // A page without styles, text or charts packs into far less.
        assert!(picture.len() > 40_000, "the picture in {name} has {} bytes", picture.len());
    }
    assert_ne!(pictures[0], pictures[1], "dark looks like light");
}

fn take(browser: &str, page: &Path, (picture, scheme): (&Path, &str), home: &Path) {
    let profile = home.join(format!("profile-{scheme}"));
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
    command.args(["--no-first-run", "--window-size=1120,2000"]);
    // No name is resolved: whatever the page asked of a network would be missing.
    command.arg("--host-resolver-rules=MAP * ~NOTFOUND");
    command.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
    command.arg(format!("--user-data-dir={}", profile.display()));
    command.arg(format!("--screenshot={}", picture.display()));
    command.arg(format!("file://{}", page.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = Running::start(command);
    run.wait_until(|| false);
}

fn browser() -> Option<&'static str> {
    let answers = |browser: &&&str| {
        let mut command = Command::new(browser);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    BROWSERS.iter().find(answers).copied()
}
