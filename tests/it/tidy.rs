//! The rules of the house that no compiler checks, checked over the sources and the documents.
//!
//! **Invariant**: every guard has a test of its own on sample text that shows it red.
//!
//! `CALLBOARD_BLESS=1 cargo test --test it tidy` writes the test columns of `docs/features.md` and
//! `docs/failures.md` anew.

mod documents;
mod layers;
mod purity;
mod rows;
mod shape;
mod source;

use std::io;

use source::Source;

fn assert_tidy(guard: impl Fn(&Source) -> Vec<String>) -> io::Result<()> {
    let sources = source::rust_sources()?;
    assert!(sources.len() > 10, "only {} source files were found", sources.len());
    assert_none(sources.iter().flat_map(guard).collect());
    Ok(())
}

fn assert_none(faults: Vec<String>) {
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn imports_look_down_only() -> io::Result<()> {
    assert_tidy(layers::upward)
}

#[test]
fn the_law_has_no_clock_no_chance_no_io_no_async_and_no_log() -> io::Result<()> {
    assert_tidy(purity::impure_law)
}

#[test]
fn actix_stays_inside_the_actors() -> io::Result<()> {
    assert_tidy(purity::escaped_actix)
}

#[test]
fn tests_do_not_sleep() -> io::Result<()> {
    assert_tidy(purity::sleeping_tests)
}

#[test]
fn files_are_short_and_narrow_and_say_what_they_own() -> io::Result<()> {
    assert_tidy(shape::misshapen)
}

#[test]
fn names_say_what_a_thing_is() -> io::Result<()> {
    assert_tidy(shape::vague_names)
}

#[test]
fn nothing_is_left_for_later() -> io::Result<()> {
    assert_tidy(shape::unfinished)
}

#[test]
fn mod_files_hold_modules_and_re_exports_only() -> io::Result<()> {
    assert_tidy(shape::crowded_mod_files)
}

#[test]
fn no_text_knows_a_machine() {
    let texts = source::texts().expect("the texts can be read");
    assert_none(texts.iter().flat_map(documents::machine_paths).collect());
}

#[test]
fn links_between_documents_lead_somewhere() {
    let texts = source::texts().expect("the texts can be read");
    assert_none(texts.iter().flat_map(documents::dead_links).collect());
}

#[test]
fn the_documents_list_every_test_of_a_row_and_no_other() {
    let sources = source::rust_sources().expect("the sources can be read");
    let tests: Vec<rows::Test> = sources.iter().flat_map(rows::tests_in).collect();
    let mut faults = Vec::new();
    let mut known = Vec::new();
    for path in ["docs/features.md", "docs/failures.md"] {
        let file = source::root().join(path);
        let found = std::fs::read_to_string(&file).expect("the document can be read");
        known.extend(rows::rows_of(&found));
        let right = rows::with_tests(&found, &tests);
        if std::env::var_os("CALLBOARD_BLESS").is_some() && found != right {
            std::fs::write(&file, &right).expect("the document can be written");
        } else {
            faults.extend(rows::differences(path, &found, &right));
        }
    }
    faults.extend(rows::repeated(&known));
    faults.extend(rows::unknown(&tests, &known));
    assert_none(faults);
}
