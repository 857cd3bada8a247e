//! Scenarios that are refused before anything is made: where the fault is, and what it is.

use callboard::Config;
use callboard::sim::scenario::Scenario;

const SMALL: &str = r#"
[run]
name = "small"

[[agents]]
label = "tap"
agent = "source"
to = ["basin"]
messages = 10
bytes = 100

[[agents]]
label = "basin"
agent = "sink"
count = 2

[[links]]
pair = ["tap", "basin"]
"#;

#[track_caller]
fn changed(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from}");
    SMALL.replacen(from, to, 1)
}

#[track_caller]
fn assert_unfit(text: &str, says: &str) {
    let fault = Scenario::parse(text).map(drop).unwrap_err().0;
    assert!(fault.starts_with(says), "{fault}\nis not\n{says}");
    assert!(!fault.contains('\n'), "{fault}");
}

#[test]
fn m93_a_body_that_makes_messages_too_large_is_a_fault_with_line_and_column() {
    assert!(Scenario::parse(&changed("bytes = 100", "bytes = 65022")).is_ok());
    assert_unfit(
        &changed("bytes = 100", "bytes = 65023"),
        "line 10, column 9: these bytes make messages of 65537 bytes with their envelope, and \
         `message_max` is 65536",
    );
    let lower = SMALL.to_owned() + "[limits]\nmessage_max = 1024\n";
    assert!(Scenario::parse(&lower).is_ok());
    let larger = lower.replace("bytes = 100", "bytes = 600");
    assert_unfit(&larger, "line 10, column 9: these bytes make messages of 1114 bytes");
    // Where segments are small, messages are bounded by them.
    let mut config = Config::default();
    config.limits.message_max = 3_072;
    let small = changed("bytes = 100", "bytes = 4000");
    assert!(Scenario::parse(&small).is_ok());
    let fault = Scenario::parse_for(&small, &config).map(drop).unwrap_err().0;
    assert!(fault.starts_with("line 10, column 9: "), "{fault}");
}

#[test]
fn m93_settings_over_the_limit_of_a_state_are_a_fault_with_line_and_column() {
    let limited = SMALL.to_owned() + "[limits]\nagent_state_max = 1\n";
    assert_unfit(&limited, "line 6, column 9: the settings of `tap` take");
    assert!(Scenario::parse(&limited.replace("_max = 1\n", "_max = 100\n")).is_ok());
}

#[test]
fn m93_a_limit_out_of_its_bounds_is_a_fault_with_line_and_column() {
    for (limits, says) in [
        ("window = 0", "line 20, column 10: window is 0 and must be 1 to 4096"),
        ("pending_max = 9\nsnapshot_every = 0", "line 21, column 18: snapshot_every is 0"),
        ("retry_backoff_ms = 3600001", "line 20, column 20: retry_backoff_ms is 3600001"),
        ("message_max = 256", "line 20, column 15: message_max is 256 and must be 1024"),
        ("window = -1", "line 20, column 10: "),
        ("windows = 1", "line 20, column 1: there is no key `windows` here"),
    ] {
        assert_unfit(&format!("{SMALL}[limits]\n{limits}\n"), says);
    }
}

#[test]
fn a_pair_is_of_two() {
    for (pair, says) in [
        ("[\"tap\", \"basin\", \"zzz\"]", "line 18, column 8: a pair names two labels, not 3"),
        ("[\"tap\"]", "line 18, column 8: a pair names two labels, not 1"),
        ("[]", "line 18, column 8: a pair names two labels, not 0"),
    ] {
        assert_unfit(&changed("[\"tap\", \"basin\"]", pair), says);
    }
}

#[test]
fn faults_of_the_text_are_sentences() {
    for (from, to, says) in [
        (
            "count = 2",
            "count = \"two\"",
            "line 15, column 9: text stands here where a whole number",
        ),
        ("count = 2", "count = -2", "line 15, column 9: -2 is not a whole number"),
        ("count = 2", "count = 2.5", "line 15, column 9: a number with a fraction stands here"),
        (
            "\"sink\"",
            "\"drain\"",
            "line 14, column 9: `drain` is none of `echo`, `relay`, `source`",
        ),
        ("\"sink\"", "7", "line 14, column 9: "),
        ("label = \"basin\"\n", "", "line 12, column 1: `label` is missing"),
        ("count = 2", "cuont = 2", "line 15, column 1: there is no key `cuont` here; there are"),
        ("to = [\"basin\"]", "to = \"basin\"", "line 8, column 6: text stands here where a list"),
    ] {
        let fault = Scenario::parse(&changed(from, to)).map(drop).unwrap_err().0;
        assert!(fault.starts_with(says), "{to}: {fault}");
        for word in ["u32", "u64", "usize", "variant", "field", "sequence", "expected", "struct"] {
            assert!(!fault.contains(word), "{to}: {fault}");
        }
    }
}

#[test]
fn names_that_are_reserved_or_no_labels_say_so() {
    assert_unfit(&changed("label = \"tap\"", "label = \"all\""), "line 6, column 9: a label is");
    assert_unfit(
        &changed("label = \"tap\"", "label = \"starter\""),
        "line 6, column 9: the label `starter` is that of the session that starts the sources",
    );
    let grouped = |name: &str| {
        changed("pair = [\"tap\", \"basin\"]", &format!("group = \"{name}\"\nmembers = [\"tap\"]"))
    };
    for name in ["The Group", "system"] {
        assert_unfit(&grouped(name), "line 18, column 9: the name of a group is a label: ");
    }
}

#[test]
fn a_circle_is_named_by_a_member_of_it() {
    let text = r#"
        run = { name = "round" }
        agents = [
            { label = "a", agent = "relay", to = ["b"] },
            { label = "b", agent = "relay", to = ["c"] },
            { label = "c", agent = "relay", to = ["b"] },
        ]
        links = [{ group = "g", members = ["a", "b", "c"] }]
    "#;
    let fault = Scenario::parse(text).map(drop).unwrap_err().0;
    assert!(fault.starts_with("line 5, column 23: "), "{fault}");
    assert!(fault.ends_with("these send to each other in a circle: `b`, `c`, `b`"), "{fault}");
}
