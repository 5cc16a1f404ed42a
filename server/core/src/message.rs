//! What a channel carries, whatever the dialect of its readers.
//!
//! A log keeps a message as a dialect's text ([`crate::dialect::Encodings`]), which contains the data: so it is stored once.

use std::borrow::Cow;

/// A message of a channel.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The channel.
    pub channel: &'a str,
    /// The epoch of the channel's log: offsets of different epochs do not compare.
    pub epoch: &'a str,
    /// Its number in the log.
    pub offset: u64,
    /// What was published.
    pub data: &'a CompactJson<'a>,
}

/// JSON without white space between its tokens. It has no line breaks, so it fits into one line of an event stream.
#[derive(Clone, Debug)]
pub struct CompactJson<'a>(Cow<'a, str>);

impl<'a> CompactJson<'a> {
    /// `json` must be JSON. What is inside its strings stays. Copies only if there is something to leave out.
    #[must_use]
    pub fn of(json: &'a str) -> Self {
        let mut compactor = Compactor::default();
        if json.chars().all(|char| compactor.keeps(char)) {
            return Self(Cow::Borrowed(json));
        }
        let mut compactor = Compactor::default();
        Self(Cow::Owned(json.chars().filter(|char| compactor.keeps(*char)).collect()))
    }

    /// `json` is what [`Self::as_str`] returned.
    pub(crate) fn already(json: &'a str) -> Self {
        Self(Cow::Borrowed(json))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Decides for each character of a JSON text, in order, whether the compact text has it.
#[derive(Default)]
struct Compactor {
    in_string: bool,
    escaped: bool,
}

impl Compactor {
    fn keeps(&mut self, char: char) -> bool {
        if self.in_string {
            self.in_string = self.escaped || char != '"';
            self.escaped = !self.escaped && char == '\\';
            return true;
        }
        self.in_string = char == '"';
        !matches!(char, ' ' | '\t' | '\n' | '\r')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_between_tokens_is_left_out() {
        for (json, compacted) in [
            ("1", "1"),
            (" [ 1 ,\n\t2\r\n] ", "[1,2]"),
            (r#"{ "a b" : " c \" d \\" , "e" : " " }"#, r#"{"a b":" c \" d \\","e":" "}"#),
            (r#""\\\" ""#, r#""\\\" ""#),
            ("\"\u{2028} é\" ", "\"\u{2028} é\""),
        ] {
            assert_eq!(CompactJson::of(json).as_str(), compacted, "{json}");
        }
    }
}
