use std::path::Path;

use regex::Regex;
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

impl Passage {
    /// Returns the text without the code in back-ticks.
    pub(crate) fn prose(&self) -> String {
        let words: Vec<&str> = self.text.split('`').collect();
        words.iter().step_by(2).copied().collect::<Vec<_>>().join("``")
    }
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

/// Comments and literals of Rust. A quote in a character literal begins no string, and neither does the `r` at
/// the end of a word.
const RUST: &str = r###"(?x)
    //[^\n]*
    | (?-u:\b)b?r\#"(?s:.*?)"\# | (?-u:\b)b?r"[^"]*" | (?:(?-u:\b)b)?"(?s:\\.|[^"\\])*"
    | '(?:\\.[^']*|[^'\\])'
"###;

/// Returns the comments and string literals.
fn of_rust(text: &str) -> Vec<Passage> {
    let mut found = Passages::default();
    let (mut read, mut line, mut last_comment) = (0, 1, 0);
    for part in Regex::new(RUST).expect("the pattern is valid").find_iter(text) {
        line += text[read..part.start()].matches('\n').count();
        read = part.start();
        let part = part.as_str();
        if let Some(comment) = part.strip_prefix("//") {
            let kind = if comment.starts_with(['/', '!']) { Kind::Doc } else { Kind::Comment };
            found.push(line, kind, part.trim_start_matches(['/', '!']), last_comment + 1 == line);
            last_comment = line;
        } else if !part.starts_with('\'') {
            found.push(line, Kind::Message, part, false);
        }
    }
    found.0
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
