//! What is permanent, held against what was written down.

use callboard::Code;

/// One of each, in the order of the list.
const CODES: [Code; 21] = [
    Code::Closed,
    Code::IdTaken,
    Code::InvalidArgument,
    Code::InvalidConfig,
    Code::JournalCorrupt,
    Code::JournalVersion,
    Code::MailboxFull,
    Code::MessageTooLarge,
    Code::NameTaken,
    Code::NotDurable,
    Code::NotFound,
    Code::SelfMessage,
    Code::SessionLimit,
    Code::StaleCaller,
    Code::StoreFull,
    Code::StoreLocked,
    Code::StoreReadOnly,
    Code::StoreUnusable,
    Code::TimedOut,
    Code::TurnLimit,
    Code::WrongOrigin,
];

#[test]
fn m94_error_codes_are_spelled_as_they_always_were() {
    let spelled: Vec<String> = CODES.iter().map(Code::to_string).collect();
    let golden: Vec<&str> = include_str!("../golden/error-codes.txt").lines().collect();
    assert_eq!(spelled, golden);
}

#[test]
fn m94_an_error_code_survives_its_own_spelling() -> serde_json::Result<()> {
    for code in CODES {
        let text = serde_json::to_string(&code)?;
        assert_eq!(serde_json::from_str::<Code>(&text)?, code, "{text}");
    }
    Ok(())
}
