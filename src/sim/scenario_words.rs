//! What a reader of TOML says, in the words of who writes a scenario.
//!
//! **Boundary**: a message that is not known here, of malformed TOML for one, is passed on as it
//! is.

/// One sentence for people.
pub(super) fn sentence(message: &str) -> String {
    let message = message.replace('\n', " ");
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let (key, known) = parted(rest);
        return format!("there is no key {key} here; there are {known}");
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let (word, known) = parted(rest);
        return format!("{word} is none of {known}");
    }
    if let Some(key) = message.strip_prefix("missing field ") {
        return format!("{key} is missing");
    }
    if let Some(rest) = message.strip_prefix("invalid type: ") {
        let (found, wanted) = parted(rest);
        let (kind, wanted) = (kind(found), want(wanted));
        if wanted.starts_with(kind) {
            return format!("this number is out of range: {wanted} is needed");
        }
        return format!("{kind} stands here where {wanted} is needed");
    }
    if let Some(rest) = message.strip_prefix("invalid value: integer ") {
        let (number, wanted) = parted(rest);
        return format!("{} is not {}", number.trim_matches('`'), want(wanted));
    }
    if message == "wanted string or table" {
        return "the name of an agent is needed here".to_owned();
    }
    message
}

/// What was found, and what may stand there.
fn parted(text: &str) -> (&str, &str) {
    let (found, wanted) = text.split_once(", expected ").unwrap_or((text, "none"));
    (found, wanted.strip_prefix("one of ").unwrap_or(wanted))
}

fn kind(found: &str) -> &'static str {
    match found.split([' ', '`']).next() {
        Some("string") => "text",
        Some("integer") => "a whole number",
        Some("floating") => "a number with a fraction",
        Some("boolean") => "true or false",
        Some("sequence") => "a list",
        Some("map") => "a table",
        Some(_) | None => "something else",
    }
}

fn want(wanted: &str) -> &str {
    match wanted {
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0 on",
        "a string" | "string" => "text",
        "a sequence" => "a list",
        other if other.starts_with("struct ") => "a table",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_told_in_words_and_the_rest_as_it_is() {
        for (message, told) in [
            (
                "unknown field `x`, expected `a` or `b`",
                "there is no key `x` here; there are `a` or `b`",
            ),
            ("missing field `name`", "`name` is missing"),
            (
                "invalid type: boolean `true`, expected u64",
                "true or false stands here where a whole number from 0 on is needed",
            ),
            ("invalid value: integer `-1`, expected u64", "-1 is not a whole number from 0 on"),
            (
                "invalid type: integer `99999999999999999999` as i128, expected u64",
                "this number is out of range: a whole number from 0 on is needed",
            ),
            ("wanted string or table", "the name of an agent is needed here"),
            ("key with no value", "key with no value"),
        ] {
            assert_eq!(sentence(message), told);
        }
    }
}
