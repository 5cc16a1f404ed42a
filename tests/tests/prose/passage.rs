use std::path::Path;

use serde::Deserialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// A Rust documentation comment.
    Doc,
    Comment,
    /// A Rust string literal.
    Message,
    /// A paragraph of Markdown.
    Paragraph,
}

/// A piece of text for human readers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    /// Line of the first word, counted from 1.
    pub(crate) line: usize,
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

/// Returns the passages of a file, whose language is determined by its extension. Returns an empty list for
/// other languages.
pub(crate) fn passages(path: &Path, text: &str) -> Vec<Passage> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => of_rust(text),
        Some("js" | "mjs" | "ts") => of_lines(text, "//"),
        Some("toml" | "sh" | "py" | "yml" | "yaml") => of_lines(text, "#"),
        Some("md") => of_markdown(text),
        _ => Vec::new(),
    }
}

/// Collects passages. Consecutive lines of one kind become one passage.
#[derive(Default)]
struct Passages(Vec<Passage>);

impl Passages {
    /// Adds a line. `joins` is set if the line continues the previous passage.
    fn push(&mut self, line: usize, kind: Kind, text: &str, joins: bool) {
        match self.0.last_mut() {
            Some(last) if joins && last.kind == kind => {
                last.text.push(' ');
                last.text.push_str(text.trim());
            }
            _ => self.0.push(Passage { line, kind, text: text.trim().to_owned() }),
        }
    }
}

/// Returns the comments on lines without code.
fn of_lines(text: &str, marker: &str) -> Vec<Passage> {
    let mut found = Passages::default();
    let mut last_line = 0;
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(comment) = line.trim_start().strip_prefix(marker) {
            found.push(number, Kind::Comment, comment, last_line + 1 == number);
            last_line = number;
        }
    }
    found.0
}

/// Returns the paragraphs, without code blocks.
fn of_markdown(text: &str) -> Vec<Passage> {
    let mut found = Passages::default();
    let (mut is_code, mut joins) = (false, false);
    for (number, line) in (1..).zip(text.lines()) {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        let is_text = !is_code && !is_fence && !line.trim().is_empty();
        if is_text {
            found.push(number, Kind::Paragraph, line, joins);
        }
        joins = is_text;
    }
    found.0
}

/// Returns the comments and string literals.
fn of_rust(text: &str) -> Vec<Passage> {
    let mut found = Passages::default();
    let (mut rest, mut line, mut last_comment) = (text, 1, 0);
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            let comment = rest.lines().next().unwrap_or_default();
            let kind = match comment.as_bytes().get(2) {
                Some(b'/' | b'!') => Kind::Doc,
                _ => Kind::Comment,
            };
            found.push(line, kind, comment.trim_start_matches(['/', '!']), last_comment + 1 == line);
            last_comment = line;
            comment.len()
        } else if let Some(length) = string(rest) {
            found.push(line, Kind::Message, &rest[..length], false);
            length
        } else {
            character(rest).or_else(|| word(rest)).unwrap_or(first.len_utf8())
        };
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    found.0
}

/// Returns the length of the string literal at the beginning of `text`.
fn string(text: &str) -> Option<usize> {
    let raw = text.strip_prefix("br").or_else(|| text.strip_prefix('r'));
    if let Some(raw) = raw {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let body = raw[hashes..].strip_prefix('"')?;
        let end = body.find(&format!("\"{}", "#".repeat(hashes)))?;
        return Some(text.len() - body.len() + end + 1 + hashes);
    }
    let body = text.strip_prefix("b\"").or_else(|| text.strip_prefix('"'))?;
    let mut is_escaped = false;
    let end = body.find(|character| {
        let ends = character == '"' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        ends
    })?;
    Some(text.len() - body.len() + end + 1)
}

/// Returns the length of the character literal at the beginning of `text`. A quote in the literal begins no
/// string.
fn character(text: &str) -> Option<usize> {
    let body = text.strip_prefix('\'')?;
    let length = if let Some(escaped) = body.strip_prefix('\\') {
        2 + escaped.get(1..)?.find('\'')?
    } else {
        body.chars().next()?.len_utf8()
    };
    body.get(length..)?.starts_with('\'').then_some(length + 2)
}

/// Returns the length of the identifier at the beginning of `text`. An `r` at the end of the identifier
/// begins no string.
fn word(text: &str) -> Option<usize> {
    let length = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    (length > 0).then_some(length)
}

#[test]
fn rust_has_comments_and_messages() {
    let text = "//! A module.\n\n/// Doc,\n/// two lines.\nfn f() { // trailing\n    g('\"', \"a \\\" b\"); // more\n    h(r#\"raw \"c\" d\"#, '\\'', b\"e\") }\n";
    let found: Vec<_> = of_rust(text).into_iter().map(|found| (found.line, found.kind, found.text)).collect();
    let expected = [
        (1, Kind::Doc, "A module."),
        (3, Kind::Doc, "Doc, two lines."),
        (5, Kind::Comment, "trailing"),
        (6, Kind::Message, "\"a \\\" b\""),
        (6, Kind::Comment, "more"),
        (7, Kind::Message, "r#\"raw \"c\" d\"#"),
        (7, Kind::Message, "b\"e\""),
    ];
    assert_eq!(found, expected.map(|(line, kind, text)| (line, kind, text.to_owned())));
}

#[test]
fn code_blocks_of_markdown_are_left_out() {
    let text = "# Title\n\nOne\ntwo.\n```sh\nthree\n```\nfour\n";
    let found: Vec<_> = of_markdown(text).into_iter().map(|found| (found.line, found.text)).collect();
    assert_eq!(found, [(1, "# Title".to_owned()), (3, "One two.".to_owned()), (8, "four".to_owned())]);
}

#[test]
fn other_languages_have_comments() {
    let found = of_lines("#!/bin/sh\n# one\n# two\nx # three\n", "#");
    assert_eq!(found[0].text, "!/bin/sh one two");
    assert_eq!(found.len(), 1);
}
