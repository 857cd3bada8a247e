//! A message trace: who wrote to whom, when, one line a message.
//!
//! **Invariant**: a trace is read whole and checked before anything is made of it; a malformed line
//! is named by its number. The k-th line of a pair becomes the pair's message number k.

use std::collections::{BTreeSet, HashMap};
use std::{fmt, str};

use uuid::Uuid;

/// The name space of content hashes.
const HASHES: Uuid = Uuid::from_u128(0x8f0d_5c1e_7b7a_4c55_9d53_61a2_0e8f_3b14);

/// A stable hash of `content`: a version 5 UUID, so SHA-1 over a fixed name space. It tells traces
/// and scenarios apart; it is no defence against somebody who makes two alike on purpose.
pub fn content_hash(content: &[u8]) -> String {
    Uuid::new_v5(&HASHES, content).to_string()
}

/// One message of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Its line in the file, from 1.
    pub number: u64,
    /// Who wrote.
    pub from: u64,
    /// To whom.
    pub to: u64,
    /// When, in seconds since 1970-01-01 UTC.
    pub time: u64,
}

/// A whole trace, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    lines: Vec<Line>,
    header: Option<String>,
}

/// Why a text is no trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A line is not what it must be.
    #[error("line {number}: {what}")]
    Line {
        /// Which, from 1.
        number: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// No line holds a message.
    #[error("it holds no message")]
    Empty,
}

impl Trace {
    /// A trace of these lines.
    ///
    /// # Errors
    /// As [`Trace::parse`], for a line to oneself and for no line at all.
    pub fn new(lines: Vec<Line>) -> Result<Self, Malformed> {
        if let Some(line) = lines.iter().find(|line| line.from == line.to) {
            return Err(Malformed::Line { number: line.number, what: TO_ONESELF });
        }
        if lines.is_empty() { Err(Malformed::Empty) } else { Ok(Trace { lines, header: None }) }
    }

    /// Reads `from to unix-time` lines: three whole numbers, separated by blanks. Empty lines and
    /// lines that begin with `#` are skipped, and so is a first line without any number in it, a
    /// header.
    ///
    /// # Errors
    /// The first malformed line: other than three fields, a field that is no whole number of at
    /// most 64 bits, a message to oneself (no session may send to itself), bytes that are no text.
    /// [`Malformed::Empty`] when nothing is left.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut lines = Vec::new();
        let (mut header, mut header_may_come) = (None, true);
        for (number, bytes) in (1_u64..).zip(bytes.split(|byte| *byte == b'\n')) {
            let malformed = |what| Malformed::Line { number, what };
            let text = str::from_utf8(bytes).map_err(|_| malformed("it is not UTF-8 text"))?;
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let is_header = header_may_come && !text.split_whitespace().any(is_number);
            header_may_come = false;
            if is_header {
                header = Some(text.to_owned());
            } else {
                let [from, to, time] = fields(text).map_err(malformed)?;
                lines.push(Line { number, from, to, time });
            }
        }
        Ok(Trace { header, ..Trace::new(lines)? })
    }

    /// The first line, where it was taken for a header.
    pub fn header(&self) -> Option<&str> {
        self.header.as_deref()
    }

    /// All lines, in the trace's order.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The first `limit` lines, or all.
    pub fn first(&self, limit: Option<u64>) -> &[Line] {
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        self.lines.get(..limit).unwrap_or(&self.lines)
    }

    /// The [`content_hash`] of all lines with their numbers.
    pub fn hash(&self) -> String {
        let mut content = Vec::with_capacity(self.lines.len() * 32);
        for Line { number, from, to, time } in &self.lines {
            for field in [number, from, to, time] {
                content.extend_from_slice(&field.to_le_bytes());
            }
        }
        content_hash(&content)
    }
}

impl fmt::Display for Trace {
    /// The lines as [`Trace::parse`] reads them; their numbers are not kept.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines
            .iter()
            .try_for_each(|line| writeln!(f, "{} {} {}", line.from, line.to, line.time))
    }
}

/// Everybody who writes or is written to, in order.
pub fn people(lines: &[Line]) -> BTreeSet<u64> {
    lines.iter().flat_map(|line| [line.from, line.to]).collect()
}

/// The lines of each pair (from, to), in the trace's order.
pub fn pairs(lines: &[Line]) -> HashMap<(u64, u64), Vec<Line>> {
    let mut pairs: HashMap<(u64, u64), Vec<Line>> = HashMap::new();
    for line in lines {
        pairs.entry((line.from, line.to)).or_default().push(*line);
    }
    pairs
}

const TO_ONESELF: &str = "it goes from a person to the same person, and no session may send to \
                          itself";

fn is_number(field: &str) -> bool {
    field.bytes().all(|byte| byte.is_ascii_digit())
}

fn fields(text: &str) -> Result<[u64; 3], &'static str> {
    let mut fields = text.split_whitespace();
    let (Some(from), Some(to), Some(time), None) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return Err("it does not have the three fields `from to unix-time`");
    };
    let number = |field: &str| is_number(field).then(|| field.parse().ok()).flatten();
    match [number(from), number(to), number(time)] {
        [Some(from), Some(to), Some(time)] => Ok([from, to, time]),
        _ => Err("a field is not a whole number of at most 64 bits"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64, from: u64, to: u64, time: u64) -> Line {
        Line { number, from, to, time }
    }

    #[test]
    fn header_comments_and_blank_lines_are_skipped_and_counted() {
        let text = b"\xef\xbb\xbfsrc dst time\r\n# note\n\n1 2 10\r\n  2\t1   11 \n";
        let trace = Trace::parse(text).unwrap();
        assert_eq!(trace.lines(), [line(4, 1, 2, 10), line(5, 2, 1, 11)]);
        assert_eq!(trace.header(), Some("src dst time"));
        assert_eq!(trace.first(Some(1)).len(), 1);
        assert_eq!(trace.first(Some(9)).len(), 2);
        assert_eq!(people(trace.lines()).len(), 2);
        assert_eq!(Trace::parse(b"1 2 10").unwrap().lines(), [line(1, 1, 2, 10)]);
    }

    #[test]
    fn the_first_malformed_line_is_named() {
        let number = |text: &[u8]| match Trace::parse(text) {
            Err(Malformed::Line { number, .. }) => number,
            other => panic!("{other:?}"),
        };
        assert_eq!(number(b"from to time\n1 2 3\n1 2\n1"), 3);
        assert_eq!(number(b"1 2 3 4"), 1);
        assert_eq!(number(b"1 x 3"), 1);
        assert_eq!(number(b"1 2 3\na b c"), 2);
        assert_eq!(number(b"1 +2 3"), 1);
        assert_eq!(number(b"1 2 -3"), 1);
        assert_eq!(number(b"1 2 18446744073709551616"), 1);
        assert_eq!(number(b"1 2 3\n\n7 7 4"), 3);
        assert_eq!(number(b"1 2 3\n\xff 2 3"), 2);
        assert_eq!(Trace::parse(b"a b c\n# d\n"), Err(Malformed::Empty));
        assert_eq!(Trace::parse(b""), Err(Malformed::Empty));
    }

    #[test]
    fn the_hash_is_of_the_content_and_stays() {
        let hash = |text: &[u8]| Trace::parse(text).unwrap().hash();
        assert_eq!(hash(b"1 2 3\n"), "05f2042f-9286-562d-a5bf-03079ba2462d");
        assert_eq!(hash(b"1 2 3\n"), hash(b"1   2 3\r\n\n# end"));
        assert_ne!(hash(b"1 2 3\n"), hash(b"1 2 4\n"));
        assert_ne!(hash(b"1 2 3\n"), hash(b"2 1 3\n"));
    }

    #[test]
    fn a_shown_trace_reads_back() {
        let trace = Trace::new(vec![line(1, 5, 6, 7), line(2, 6, 5, 8)]).unwrap();
        assert_eq!(Trace::parse(trace.to_string().as_bytes()), Ok(trace));
    }
}
