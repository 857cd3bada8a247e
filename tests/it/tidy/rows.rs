//! Ties the rows of `docs/features.md` and `docs/failures.md` to the tests that hold them.
//!
//! A test names its rows in front: `m28_…`, `f12_…`, `m26_f01_…`. A document is a table whose first
//! column is the row and whose last column lists its tests as they are given to `cargo test`, `—`
//! while there is none, or `later` while no part under work covers the row.
//!
//! **Invariant**: a row's list is exactly the tests that name it.

use super::source::Source;

const NO_TEST: &str = "—";
const LATER: &str = "later";

/// A test function whose name begins with rows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Test {
    /// As `cargo test` takes it: modules and function.
    path: String,
    /// As the documents write them: `M28`.
    rows: Vec<String>,
}

/// The tests of a file that name rows.
pub(super) fn tests_in(source: &Source) -> Vec<Test> {
    let mut marked = false;
    let mut found = Vec::new();
    source.visit(|at, token, modules| match token.text.as_str() {
        "test" if matches!(source.before(at), "[" | "::") => marked = true,
        "}" => marked = false,
        "fn" if marked => {
            marked = false;
            let name = source.token(at + 1);
            let rows = rows_in_name(name);
            if !rows.is_empty() {
                let path = modules.iter().map(String::as_str).chain([name]);
                found.push(Test { path: path.collect::<Vec<_>>().join("::"), rows });
            }
        }
        _ => {}
    });
    found
}

fn rows_in_name(name: &str) -> Vec<String> {
    let is_row = |part: &&str| {
        let number = part.strip_prefix(['m', 'f']).unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    name.split('_').take_while(is_row).map(str::to_uppercase).collect()
}

/// The rows of a document, in its order.
pub(super) fn rows_of(document: &str) -> Vec<String> {
    document.lines().filter_map(|line| row_of(line).map(str::to_owned)).collect()
}

fn row_of(line: &str) -> Option<&str> {
    let first = line.strip_prefix("| ")?.split(' ').next()?;
    let number = first.strip_prefix(['M', 'F'])?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(first)
}

/// The document with every list as it is to be.
pub(super) fn with_tests(document: &str, tests: &[Test]) -> String {
    let mut right = String::new();
    for line in document.lines() {
        match row_of(line).zip(columns(line)) {
            Some((row, (rule, listed))) => {
                right.push_str(&format!("{rule} | {} |", list(row, listed, tests)));
            }
            None => right.push_str(line),
        }
        right.push('\n');
    }
    right
}

/// A line's columns but the last, and the last.
fn columns(line: &str) -> Option<(&str, &str)> {
    let (rule, listed) = line.trim_end().strip_suffix('|')?.rsplit_once('|')?;
    Some((rule.trim_end(), listed.trim()))
}

fn list(row: &str, listed: &str, tests: &[Test]) -> String {
    let mut names: Vec<String> = tests
        .iter()
        .filter(|test| test.rows.iter().any(|named| named == row))
        .map(|test| format!("`{}`", test.path))
        .collect();
    names.sort();
    match (names.is_empty(), listed) {
        (false, _) => names.join("<br>"),
        (true, LATER) => LATER.to_owned(),
        (true, _) => NO_TEST.to_owned(),
    }
}

/// Where a document does not say what it is to say.
pub(super) fn differences(path: &str, found: &str, right: &str) -> Vec<String> {
    let pairs = found.lines().zip(right.lines()).enumerate();
    let mut faults: Vec<String> = pairs
        .filter(|(_, (found, right))| found != right)
        .map(|(at, (found, right))| {
            let listed = |line| columns(line).map_or(line, |(_, listed)| listed);
            let (row, is, should) = (row_of(found).unwrap_or("?"), listed(found), listed(right));
            format!("{path}:{}: {row} lists {is}, its tests are {should}", at + 1)
        })
        .collect();
    if faults.is_empty() && found != right {
        faults.push(format!("{path}: the text must end with a line feed"));
    }
    if !faults.is_empty() {
        faults.push("write it with CALLBOARD_BLESS=1 cargo test --test it tidy".to_owned());
    }
    faults
}

/// Rows that stand in the documents twice.
pub(super) fn repeated(rows: &[String]) -> Vec<String> {
    let again = |(at, row): (usize, &String)| rows.iter().take(at).any(|before| before == row);
    let twice = rows.iter().enumerate().filter(|(at, row)| again((*at, row)));
    twice.map(|(_, row)| format!("docs: {row} stands there twice")).collect()
}

/// Tests that name a row which no document has.
pub(super) fn unknown(tests: &[Test], rows: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    for test in tests {
        for row in test.rows.iter().filter(|row| !rows.contains(row)) {
            faults.push(format!("{}: the documents have no row {row}", test.path));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "# Rows\n\n| row | rule | tests |\n|---|---|---|\n\
        | M01 | one | `crash::m01_a` |\n| F02 | a \\| b | later |\n| M03 | three | — |\n";

    fn tests(text: &str) -> Vec<Test> {
        tests_in(&Source::new("tests/it/crash.rs", text))
    }

    #[test]
    fn tests_are_found_with_their_modules_and_rows() {
        let text = "#[test] fn m26_f01_a() {} fn m02_no_test() {} #[tokio::test(start_paused)] \
            async fn m03_b() {} #[test] fn plain() {} mod deep { #[test] fn f04_c() {} } \
            #[test] fn m05_d() {}";
        let named: Vec<(String, String)> =
            tests(text).into_iter().map(|test| (test.path, test.rows.join(" "))).collect();
        let named: Vec<(&str, &str)> =
            named.iter().map(|(path, rows)| (path.as_str(), rows.as_str())).collect();
        let right = [
            ("crash::m26_f01_a", "M26 F01"),
            ("crash::m03_b", "M03"),
            ("crash::deep::f04_c", "F04"),
            ("crash::m05_d", "M05"),
        ];
        assert_eq!(named, right);
        let unit = Source::new("src/persist/log/mod.rs", "mod tests { #[test] fn f37_x() {} }");
        assert_eq!(tests_in(&unit).first().unwrap().path, "persist::log::tests::f37_x");
    }

    #[test]
    fn a_true_document_is_left_alone() {
        let right = with_tests(DOCUMENT, &tests("#[test] fn m01_a() {}"));
        assert_eq!(right, DOCUMENT);
        assert!(differences("docs/x.md", DOCUMENT, &right).is_empty());
    }

    #[test]
    fn a_test_that_is_not_listed_is_found() {
        let right = with_tests(DOCUMENT, &tests("#[test] fn m01_a() {} #[test] fn m01_b() {}"));
        assert!(right.contains("| `crash::m01_a`<br>`crash::m01_b` |"));
        assert!(differences("docs/x.md", DOCUMENT, &right)[0].contains("M01 lists"));
    }

    #[test]
    fn a_listed_test_that_is_gone_is_found() {
        let right = with_tests(DOCUMENT, &tests("#[test] fn f02_z() {}"));
        assert!(right.contains("| M01 | one | — |"));
        assert!(right.contains("| F02 | a \\| b | `crash::f02_z` |"));
        assert_eq!(differences("docs/x.md", DOCUMENT, &right).len(), 3);
    }

    #[test]
    fn a_row_without_a_document_and_a_row_told_twice_are_found() {
        let rows = rows_of(DOCUMENT);
        assert_eq!(rows, ["M01", "F02", "M03"]);
        assert_eq!(unknown(&tests("#[test] fn m9_x() {} #[test] fn m03_y() {}"), &rows).len(), 1);
        assert!(repeated(&rows).is_empty());
        assert_eq!(repeated(&["M01".to_owned(), "M01".to_owned()]).len(), 1);
    }
}
