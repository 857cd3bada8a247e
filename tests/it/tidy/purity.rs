//! What may not be named where: clocks, chance, IO and logs in the law, actix outside the actors,
//! sleep in tests.

use super::source::Source;

/// Words that have no place in the law, wherever they stand in the code.
const IMPURE_WORDS: [&str; 18] = [
    "async",
    "await",
    "SystemTime",
    "now_v7",
    "new_v4",
    "tracing",
    "log",
    "println",
    "eprintln",
    "rand",
    "rand_chacha",
    "fastrand",
    "getrandom",
    "actix",
    "actix_rt",
    "tokio",
    "futures",
    "dashmap",
];

/// Modules of the standard library that touch the world.
const IMPURE_MODULES: [&str; 6] = ["fs", "net", "io", "env", "process", "thread"];

/// Whatever makes an answer of the law depend on more than its arguments.
pub(super) fn impure_law(source: &Source) -> Vec<String> {
    if source.layer() != Some("protocol") {
        return Vec::new();
    }
    let mut faults = Vec::new();
    for (at, token) in source.tokens.iter().enumerate() {
        let mut fault = |what: &str| {
            faults.push(source.fault(token.line, &format!("the law may not name `{what}`")));
        };
        let names_item = source.token(at + 1) == "::" || source.token(at + 1) == "!";
        let is_plain = matches!(token.text.as_str(), "log" | "rand" | "futures" | "tracing");
        if IMPURE_WORDS.contains(&token.text.as_str()) && (names_item || !is_plain) {
            fault(&token.text);
        }
        if source.reads(at, &["Instant", "::", "now"]) {
            fault("Instant::now");
        }
        if source.reads(at, &["std", "::"]) {
            for module in std_modules(source, at + 2) {
                if IMPURE_MODULES.contains(&module) {
                    fault(&format!("std::{module}"));
                }
            }
        }
    }
    faults
}

fn std_modules(source: &Source, at: usize) -> Vec<&str> {
    if source.token(at) != "{" {
        return vec![source.token(at)];
    }
    let group = (at + 1..source.tokens.len()).take_while(|inner| source.token(*inner) != ";");
    group
        .filter(|inner| matches!(source.before(*inner), "{" | ","))
        .map(|inner| source.token(inner))
        .collect()
}

/// actix outside `src/actors`, or in a file that declares what agents are written against.
pub(super) fn escaped_actix(source: &Source) -> Vec<String> {
    let Some(layer) = source.layer() else { return Vec::new() };
    let declares = |name: &str| {
        (0..source.tokens.len()).any(|at| {
            source.reads(at, &["pub", "trait", name]) || source.reads(at, &["pub", "struct", name])
        })
    };
    if layer == "actors" && !["Agent", "Turn", "Factory"].into_iter().any(declares) {
        return Vec::new();
    }
    let named = source.tokens.iter().filter(|token| token.text.starts_with("actix"));
    named.map(|token| source.fault(token.line, "actix is named outside the actors")).collect()
}

/// Sleep in tests: time there is paused or driven by hand.
pub(super) fn sleeping_tests(source: &Source) -> Vec<String> {
    let tests_from = if source.is_test() {
        Some(0)
    } else {
        (0..source.tokens.len()).find(|at| source.reads(*at, &["cfg", "(", "test", ")"]))
    };
    let Some(tests_from) = tests_from else { return Vec::new() };
    (tests_from..source.tokens.len())
        .filter(|at| {
            source.reads(*at, &["thread", "::", "sleep"])
                || source.reads(*at, &["time", "::", "sleep"])
        })
        .filter_map(|at| source.tokens.get(at))
        .map(|token| source.fault(token.line, "a test sleeps: wait for what it waits for"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(text: &str) -> usize {
        impure_law(&Source::new("src/protocol/machine.rs", text)).len()
    }

    #[test]
    fn each_impurity_of_the_law_is_found() {
        for text in [
            "async fn f() {}",
            "let now = Instant::now();",
            "use std::time::SystemTime;",
            "use std::fs;",
            "use std::{fmt, net::TcpStream};",
            "std::thread::spawn(f);",
            "tracing::debug!(\"x\");",
            "let x = rand::random();",
            "use actix::Addr;",
            "use tokio::sync::oneshot;",
            "println!(\"x\");",
            "let id = Uuid::now_v7();",
        ] {
            assert_eq!(law(text), 1, "{text}");
        }
    }

    #[test]
    fn pure_code_and_words_about_the_world_are_fine() {
        let text = "//! Not Instant::now().\nuse std::{collections, time::Duration};";
        assert_eq!(law(text), 0);
        assert_eq!(law("let log = vec![1]; const T: &str = \"tokio::spawn\";"), 0);
        assert!(impure_law(&Source::new("src/persist/x.rs", "use std::fs;")).is_empty());
    }

    #[test]
    fn actix_is_found_outside_the_actors_and_in_the_traits_of_agents() {
        let actix = |path, text| escaped_actix(&Source::new(path, text)).len();
        assert_eq!(actix("src/persist/x.rs", "use actix::Addr;"), 1);
        assert_eq!(actix("src/bus.rs", "pub fn f() -> actix::Addr<X> {}"), 1);
        assert_eq!(actix("src/actors/agent.rs", "use actix::Addr;\npub trait Agent {}"), 1);
        assert_eq!(actix("src/actors/session.rs", "use actix::Addr;"), 0);
        assert_eq!(actix("src/bus.rs", "// actix stays below"), 0);
    }

    #[test]
    fn a_sleeping_test_is_found() {
        let sleeps = |path, text| sleeping_tests(&Source::new(path, text)).len();
        let text = "std::thread::sleep(a); tokio::time::sleep(b).await;";
        assert_eq!(sleeps("tests/it/x.rs", text), 2);
        let text = "time::sleep(a); #[cfg(test)] mod t { thread::sleep(b); }";
        assert_eq!(sleeps("src/x.rs", text), 1);
        assert_eq!(sleeps("src/x.rs", "tokio::time::sleep(a);"), 0);
    }
}
