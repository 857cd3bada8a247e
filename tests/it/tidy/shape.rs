//! The shape of files: length, width, opening, names, and nothing unfinished.

use super::source::Source;

const LINES_MAX: usize = 500;
const WIDTH_MAX: usize = 100;
const VAGUE_WORDS: [&str; 7] = ["Manager", "Helper", "Helpers", "Util", "Utils", "Common", "Info"];

/// Files that are too long, too wide, or do not open by saying what they own.
pub(super) fn misshapen(source: &Source) -> Vec<String> {
    let mut faults = Vec::new();
    let n_lines = source.text.lines().count();
    if n_lines > LINES_MAX {
        faults.push(source.fault(n_lines, &format!("a file has at most {LINES_MAX} lines")));
    }
    if !["//!", "#![doc"].iter().any(|opening| source.text.starts_with(opening)) {
        faults.push(source.fault(1, "a file opens with `//!` and what it owns"));
    }
    for (at, line) in source.text.lines().enumerate() {
        if line.chars().count() > WIDTH_MAX {
            faults
                .push(source.fault(at + 1, &format!("a line has at most {WIDTH_MAX} characters")));
        }
    }
    faults
}

/// Types and files named by words that fit anything.
pub(super) fn vague_names(source: &Source) -> Vec<String> {
    let file = source.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
    let is_vague = |word: &str| VAGUE_WORDS.iter().any(|vague| vague.eq_ignore_ascii_case(word));
    let mut faults = Vec::new();
    if file.split('_').any(is_vague) {
        faults.push(source.fault(1, "this file's name would fit any file"));
    }
    for (at, token) in source.tokens.iter().enumerate() {
        let declared = matches!(source.before(at), "struct" | "enum" | "trait" | "type" | "union");
        if declared && words(&token.text).iter().any(|word| VAGUE_WORDS.contains(&word.as_str())) {
            faults.push(source.fault(token.line, &format!("`{}` would fit any type", token.text)));
        }
    }
    faults
}

/// The words of a name in camel case.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for next in name.chars() {
        match words.last_mut() {
            Some(word) if !next.is_uppercase() => word.push(next),
            _ => words.push(next.into()),
        }
    }
    words
}

/// Marks of unfinished work, in code and in comments.
pub(super) fn unfinished(source: &Source) -> Vec<String> {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME")];
    let mut faults = Vec::new();
    for (at, line) in source.text.lines().enumerate() {
        let mut words = line.split(|next: char| !next.is_alphanumeric() && next != '_');
        if words.any(|word| marks.contains(&word)) {
            faults.push(source.fault(at + 1, "finish it, or say why it is as it is"));
        }
    }
    for (at, token) in source.tokens.iter().enumerate() {
        if source.reads(at, &["todo", "!"]) || source.reads(at, &["unimplemented", "!"]) {
            faults.push(source.fault(token.line, "finish it"));
        }
    }
    faults
}

/// `mod.rs` and the test binary's `main.rs` that hold more than modules and re-exports.
pub(super) fn crowded_mod_files(source: &Source) -> Vec<String> {
    if !source.path.ends_with("/mod.rs") && source.path != "tests/it/main.rs" {
        return Vec::new();
    }
    let items = ["fn", "struct", "enum", "trait", "impl", "const", "static", "type"];
    let found = source.tokens.iter().filter(|token| items.contains(&token.text.as_str()));
    found.map(|token| source.fault(token.line, "only modules and re-exports stand here")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_a_wide_and_a_wordless_file_are_found() {
        let faults = |text: &str| misshapen(&Source::new("src/x.rs", text)).len();
        let opening = "//! Owns x.\n";
        assert_eq!(faults(&format!("{opening}{}", "\n".repeat(499))), 0);
        assert_eq!(faults(&format!("{opening}{}", "\n".repeat(500))), 1);
        assert_eq!(faults(&format!("{opening}{}\n", "é".repeat(100))), 0);
        assert_eq!(faults(&format!("{opening}{}\n", "é".repeat(101))), 1);
        assert_eq!(faults("use x;\n//! Late.\n"), 1);
    }

    #[test]
    fn a_vague_name_is_found() {
        let faults = |path, text| vague_names(&Source::new(path, text)).len();
        assert_eq!(faults("src/x.rs", "struct SessionManager; enum InfoKind {} trait UtilX {}"), 3);
        assert_eq!(faults("src/common.rs", ""), 1);
        assert_eq!(faults("src/x.rs", "struct Informed; fn f(x: SessionInfo) {}"), 0);
    }

    #[test]
    fn unfinished_work_is_found_in_comments_and_code() {
        let faults = |text: &str| unfinished(&Source::new("src/x.rs", text)).len();
        assert_eq!(faults(concat!("// TO", "DO: later")), 1);
        assert_eq!(faults(concat!("/// FIX", "ME")), 1);
        assert_eq!(faults("fn f() { todo!() }"), 1);
        assert_eq!(faults("let todo = 1; // the to-do list"), 0);
    }

    #[test]
    fn a_crowded_mod_file_is_found() {
        let faults = |path, text| crowded_mod_files(&Source::new(path, text)).len();
        assert_eq!(faults("src/persist/mod.rs", "//! fn\nmod log;\npub use log::Log;"), 0);
        assert_eq!(faults("src/persist/mod.rs", "mod log; fn f() {}"), 1);
        assert_eq!(faults("tests/it/main.rs", "mod tidy; struct S;"), 1);
        assert_eq!(faults("src/persist/log.rs", "fn f() {}"), 0);
    }
}
