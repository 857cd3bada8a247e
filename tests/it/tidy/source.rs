//! Reads the repository: which files there are, and what of a Rust file is code.
//!
//! **Boundary**: comments and literals never become tokens, so that a guard on code is not set off
//! by a sentence about it.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// A file below the repository's root.
pub(super) struct Source {
    /// Its path from the root, with `/` between parts.
    pub(super) path: String,
    pub(super) text: String,
    pub(super) tokens: Vec<Token>,
}

/// An identifier, a number, `::`, or one other character of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) text: String,
    /// From 1.
    pub(super) line: usize,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Self {
        let is_rust = Path::new(path).extension().is_some_and(|extension| extension == "rs");
        let tokens = if is_rust { tokens(text) } else { Vec::new() };
        Source { path: path.to_owned(), text: text.to_owned(), tokens }
    }

    /// The text of token `at`, or nothing beyond the ends.
    pub(super) fn token(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| &token.text)
    }

    /// The text of the token before `at`.
    pub(super) fn before(&self, at: usize) -> &str {
        at.checked_sub(1).map_or("", |before| self.token(before))
    }

    /// Whether the tokens from `at` on read like this.
    pub(super) fn reads(&self, at: usize, texts: &[&str]) -> bool {
        texts.iter().enumerate().all(|(offset, text)| self.token(at + offset) == *text)
    }

    pub(super) fn fault(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path)
    }

    /// Shows each token with its place and the module it stands in, inline modules included.
    pub(super) fn visit(&self, mut see: impl FnMut(usize, &Token, &[String])) {
        let mut modules = self.module();
        let mut opened_at = Vec::new();
        let mut depth = 0_usize;
        for (at, token) in self.tokens.iter().enumerate() {
            if token.text == "{" {
                depth += 1;
                if at >= 2 && self.token(at - 2) == "mod" {
                    modules.push(self.before(at).to_owned());
                    opened_at.push(depth);
                }
            } else if token.text == "}" {
                if opened_at.last() == Some(&depth) {
                    opened_at.pop();
                    modules.pop();
                }
                depth = depth.saturating_sub(1);
            }
            see(at, token, &modules);
        }
    }

    /// The module that the file is, from its crate's root.
    fn module(&self) -> Vec<String> {
        let path = self.path.as_str();
        let below = path.strip_prefix("src/").or(path.strip_prefix("tests/it/")).unwrap_or(path);
        let parts = below.trim_end_matches(".rs").split('/').map(str::to_owned);
        parts.filter(|part| part != "mod" && part != "main" && part != "lib").collect()
    }

    pub(super) fn is_test(&self) -> bool {
        self.path.starts_with("tests/")
    }

    /// The first part of the path below `src`, without `.rs`: the layer a file belongs to.
    pub(super) fn layer(&self) -> Option<&str> {
        let first = self.path.strip_prefix("src/")?.split('/').next()?;
        Some(first.strip_suffix(".rs").unwrap_or(first))
    }
}

pub(super) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file of the crate.
pub(super) fn rust_sources() -> io::Result<Vec<Source>> {
    files(&["src", "tests", "benches", "examples"], &["rs"])
}

/// Every text of the repository that people read or machines run.
pub(super) fn texts() -> io::Result<Vec<Source>> {
    let mut texts = files(
        &["src", "tests", "benches", "examples", "docs", "scenarios", ".ci"],
        &["rs", "md", "toml", "sh", ""],
    )?;
    for entry in fs::read_dir(root())? {
        let path = entry?.path();
        if path.is_file() && has_extension(&path, &["md", "toml", "sh"]) {
            texts.push(read(&path)?);
        }
    }
    Ok(texts)
}

fn files(directories: &[&str], extensions: &[&str]) -> io::Result<Vec<Source>> {
    let mut left: Vec<PathBuf> = directories.iter().map(|name| root().join(name)).collect();
    let mut found = Vec::new();
    while let Some(directory) = left.pop() {
        if !directory.is_dir() {
            continue;
        }
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() {
                left.push(path);
            } else if has_extension(&path, extensions) {
                found.push(read(&path)?);
            }
        }
    }
    found.sort_by(|one: &Source, two: &Source| one.path.cmp(&two.path));
    Ok(found)
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("");
    extensions.contains(&extension)
}

fn read(path: &Path) -> io::Result<Source> {
    let below = path.strip_prefix(root()).unwrap_or(path);
    let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
    let bytes = fs::read(path)?;
    Ok(Source::new(&parts.join("/"), &String::from_utf8_lossy(&bytes)))
}

fn tokens(text: &str) -> Vec<Token> {
    let mut reader = Reader { chars: text.chars().collect(), at: 0, line: 1, tokens: Vec::new() };
    while let Some(next) = reader.peek(0) {
        reader.take(next);
    }
    reader.tokens
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    line: usize,
    tokens: Vec<Token>,
}

impl Reader {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn skip(&mut self) {
        if self.peek(0) == Some('\n') {
            self.line += 1;
        }
        self.at += 1;
    }

    fn take(&mut self, next: char) {
        match (next, self.peek(1)) {
            ('/', Some('/')) => self.line_comment(),
            ('/', Some('*')) => self.block_comment(),
            ('"', _) => self.quoted('"'),
            ('\'', _) => self.character_or_lifetime(),
            (':', Some(':')) => self.push("::".to_owned()),
            _ if next.is_alphanumeric() || next == '_' => self.word(),
            _ if next.is_whitespace() => self.skip(),
            _ => self.push(next.to_string()),
        }
    }

    fn push(&mut self, text: String) {
        let length = text.chars().count();
        self.tokens.push(Token { text, line: self.line });
        self.at += length;
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|next| next != '\n') {
            self.skip();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        while let Some(next) = self.peek(0) {
            match (next, self.peek(1)) {
                ('/', Some('*')) => depth += 1,
                ('*', Some('/')) => depth -= 1,
                _ => {
                    self.skip();
                    continue;
                }
            }
            self.at += 2;
            if depth == 0 {
                return;
            }
        }
    }

    fn quoted(&mut self, quote: char) {
        self.skip();
        while let Some(next) = self.peek(0) {
            if next == '\\' {
                self.skip();
            }
            self.skip();
            if next == quote {
                return;
            }
        }
    }

    fn character_or_lifetime(&mut self) {
        if self.peek(1) == Some('\\') || self.peek(2) == Some('\'') {
            return self.quoted('\'');
        }
        self.skip();
        while self.peek(0).is_some_and(|next| next.is_alphanumeric() || next == '_') {
            self.skip();
        }
    }

    fn word(&mut self) {
        let rest = self.chars.get(self.at..).unwrap_or_default();
        let word: String =
            rest.iter().take_while(|next| next.is_alphanumeric() || **next == '_').collect();
        let length = word.chars().count();
        let hashes = rest.iter().skip(length).take_while(|next| **next == '#').count();
        let opens = rest.get(length + hashes) == Some(&'"');
        match word.as_str() {
            "r" | "br" | "cr" if opens => {
                self.at += length + hashes + 1;
                self.raw_text(hashes);
            }
            "b" | "c" if opens && hashes == 0 => {
                self.at += length;
                self.quoted('"');
            }
            _ => self.push(word),
        }
    }

    fn raw_text(&mut self, hashes: usize) {
        while let Some(next) = self.peek(0) {
            self.skip();
            if next == '"' && (0..hashes).all(|ahead| self.peek(ahead) == Some('#')) {
                self.at += hashes;
                return;
            }
        }
    }
}

#[test]
fn comments_and_literals_are_not_code() {
    let text = "a // b\n/* c /* d */ e */ f::g(\"h\\\"i\", r#\"j\"k\"#, 'l', '\\'', b\"m\", &'n o)";
    let source = Source::new("src/x.rs", text);
    let words: Vec<&str> = source.tokens.iter().map(|token| token.text.as_str()).collect();
    assert_eq!(words.join(" "), "a f :: g ( , , , , , & o )");
    assert_eq!(source.tokens.iter().map(|token| token.line).max(), Some(2));
}

#[test]
fn a_file_belongs_to_the_layer_its_path_begins_with() {
    let layer = |path| Source::new(path, "").layer().map(str::to_owned);
    assert_eq!(layer("src/persist/log/write.rs").as_deref(), Some("persist"));
    assert_eq!(layer("src/bus.rs").as_deref(), Some("bus"));
    assert_eq!(layer("tests/it/main.rs"), None);
}
