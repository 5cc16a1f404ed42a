use regex::Regex;
use serde::Deserialize;

use crate::passage::{Kind, Passage};

/// A pattern of phrases to reject.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pattern {
    #[serde(deserialize_with = "compile")]
    regex: Regex,
    pub(crate) instead: String,
    #[serde(default)]
    only: Option<Kind>,
    /// Sentences that the pattern must find.
    finds: Vec<String>,
    /// Sentences that the pattern must not find.
    #[serde(default)]
    allows: Vec<String>,
}

fn compile<'de, D: serde::Deserializer<'de>>(text: D) -> Result<Regex, D::Error> {
    Regex::new(&String::deserialize(text)?).map_err(serde::de::Error::custom)
}

#[derive(Deserialize)]
struct List {
    pattern: Vec<Pattern>,
}

impl Pattern {
    pub(crate) fn read(list: &str) -> Vec<Self> {
        toml::from_str::<List>(list).unwrap_or_else(|error| panic!("tests/prose.toml: {error}")).pattern
    }

    pub(crate) fn as_str(&self) -> &str {
        self.regex.as_str()
    }

    /// Returns the words of the passage that the pattern matches.
    pub(crate) fn find(&self, passage: &Passage) -> Option<String> {
        if self.only.is_some_and(|only| only != passage.kind) {
            return None;
        }
        self.regex.find(&passage.prose()).map(|found| found.as_str().to_owned())
    }
}

#[test]
fn each_pattern_finds_and_allows_its_examples() {
    for pattern in Pattern::read(include_str!("../../prose.toml")) {
        let kind = pattern.only.unwrap_or(Kind::Comment);
        let find = |text: &String| pattern.find(&Passage { line: 1, kind, text: text.clone() });
        assert!(!pattern.finds.is_empty(), "{} has no example", pattern.regex);
        for text in &pattern.finds {
            assert!(find(text).is_some(), "{} does not find: {text}", pattern.regex);
        }
        for text in &pattern.allows {
            assert_eq!(find(text), None, "{} finds: {text}", pattern.regex);
        }
    }
}
