//! Messages of channels, independent of dialect.
//!
//! A log stores a message as the text of one dialect ([`crate::dialect::json::EncodedMessage`]). The text contains the
//! data, which is therefore stored only once.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A message of a channel.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Name of the channel.
    pub channel: &'a str,
    /// Epoch of the channel's log, if subscribers may know the log by an earlier epoch. The message then names
    /// it.
    pub epoch: Option<&'a str>,
    /// Number of the message in the log.
    pub offset: u64,
    /// Time of publication in milliseconds since the Unix epoch; `None` if subscribers do not receive it.
    pub at_ms: Option<u64>,
    /// The published data, with its publisher.
    pub content: &'a Content<'a>,
}

/// Kind of a message's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentKind {
    /// Data published by a client or through the API.
    #[default]
    Data,
    /// A session has subscribed to the channel. The data is the part of the session that other subscribers
    /// may see.
    Joined,
    /// A session is no longer subscribed to the channel.
    Left,
}

impl ContentKind {
    /// Name of the data field on the wire. Clients can publish only `data`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Joined => "joined",
            Self::Left => "left",
        }
    }
}

/// The published data, with its publisher.
#[derive(Clone, Debug)]
pub struct Content<'a> {
    /// Kind of the data.
    pub kind: ContentKind,
    /// User whose client published the message; `None` for anonymous clients and the API. Set by the server,
    /// never by the client.
    pub user: Option<Cow<'a, str>>,
    /// Time of publication on another node, in milliseconds since the Unix epoch.
    pub at_ms: Option<u64>,
    /// The published data; for a join or leave, the session concerned.
    pub data: CompactJson<'a>,
}

impl Content<'_> {
    /// Detaches the content from the text it was parsed from.
    #[must_use]
    pub fn into_owned(self) -> Content<'static> {
        let user = self.user.map(|user| user.into_owned().into());
        Content { kind: self.kind, user, at_ms: self.at_ms, data: self.data.into_owned() }
    }
}

impl Content<'static> {
    /// Returns the content of a join or leave message.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn join_or_leave(kind: ContentKind, session: &str, user: Option<&str>) -> Self {
        let follower = SubscriberInfo { session: session.into(), user: user.map(Into::into) };
        let follower = serde_json::to_string(&follower);
        let data = CompactJson(follower.expect("serializing our own types cannot fail").into());
        Self { kind, user: None, at_ms: None, data }
    }
}

/// Data of a join or leave message: the session that joined or left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriberInfo<'a> {
    /// Public id of the session.
    #[serde(borrow)]
    pub session: Cow<'a, str>,
    /// The `sub` claim of the client's token, if it has one.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub user: Option<Cow<'a, str>>,
}

/// Creates the content of an anonymous message.
impl<'a> From<CompactJson<'a>> for Content<'a> {
    fn from(data: CompactJson<'a>) -> Self {
        Self { kind: ContentKind::Data, user: None, at_ms: None, data }
    }
}

/// Metadata that the server adds to a message, the same for all subscribers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp<'a> {
    /// Kind of the message's data.
    pub kind: ContentKind,
    /// User whose client published the message; `None` for anonymous clients and the API.
    pub user: Option<JsonString<'a>>,
    /// Time of publication in milliseconds since the Unix epoch; `None` if subscribers do not receive it.
    pub at_ms: Option<u64>,
}

/// A string in JSON syntax, including the quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonString<'a>(&'a str);

impl<'a> JsonString<'a> {
    /// Wraps `json`, which must be an encoded string.
    pub(crate) fn from_encoded(json: &'a str) -> Self {
        Self(json)
    }

    /// Returns the JSON text, including the quotes.
    #[must_use]
    pub fn as_json(self) -> &'a str {
        self.0
    }

    /// Decodes the string.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn to_text(self) -> String {
        serde_json::from_str(self.0).expect("it is an encoded string")
    }
}

/// JSON without white space between its tokens. It has no line breaks, so it fits on one line of an event
/// stream.
///
/// Everything one client publishes must be readable by the JSON parsers of all others. The values therefore
/// follow I-JSON (RFC 7493): strings are valid Unicode, and numbers are within the range of a double. Nesting
/// is limited to [`MAX_DEPTH`].
#[derive(Clone, Debug)]
pub struct CompactJson<'a>(Cow<'a, str>);

/// Maximum nesting depth of arrays and objects. Some parsers reject depths of about a hundred and more.
pub const MAX_DEPTH: usize = 64;

/// Why JSON was rejected although its syntax is valid: some clients' parsers could not read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadJson {
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("data is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// A number is beyond the range of a double.
    #[error("data contains a number beyond the range of a double")]
    NumberOutOfRange,
    /// A string contains half of a surrogate pair.
    #[error("data contains half of a surrogate pair")]
    LoneSurrogate,
}

impl<'a> CompactJson<'a> {
    /// Removes the white space between tokens; strings are left as they are. `json` must be syntactically
    /// valid. Copies only if there is white space to remove.
    ///
    /// # Errors
    /// Returns [`BadJson`] if some parsers would reject the text.
    pub fn parse(json: &'a str) -> Result<Self, BadJson> {
        let mut tokens = Tokens { json, at: 0, depth: 0 };
        let mut compact = String::new();
        // Everything before this index has been copied to `compact`. It stays 0 until white space is found.
        let mut copied = 0;
        while let Some(token) = tokens.next() {
            if let Token::WhiteSpace(range) = token? {
                compact.push_str(&json[copied..range.start]);
                copied = range.end;
            }
        }
        if copied == 0 {
            return Ok(Self(Cow::Borrowed(json)));
        }
        compact.push_str(&json[copied..]);
        Ok(Self(Cow::Owned(compact)))
    }

    /// Wraps `json`, which must be a text returned by [`Self::as_str`].
    pub(crate) fn from_compact(json: &'a str) -> Self {
        Self(Cow::Borrowed(json))
    }

    /// Detaches the JSON from the text it was parsed from.
    #[must_use]
    pub fn into_owned(self) -> CompactJson<'static> {
        CompactJson(self.0.into_owned().into())
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Iterates over the tokens of a JSON text, distinguishing only what [`CompactJson::parse`] needs.
struct Tokens<'a> {
    json: &'a str,
    at: usize,
    depth: usize,
}

enum Token {
    WhiteSpace(Range<usize>),
    Other,
}

impl Tokens<'_> {
    fn next(&mut self) -> Option<Result<Token, BadJson>> {
        let rest = &self.json.as_bytes()[self.at..];
        let length_of =
            |is_part: fn(&u8) -> bool| rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        let (length, token) = match *rest.first()? {
            b' ' | b'\t' | b'\n' | b'\r' => {
                let length = length_of(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
                (length, Ok(Token::WhiteSpace(self.at..self.at + length)))
            }
            b'-' | b'0'..=b'9' => {
                let length = length_of(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
                let number = self.json[self.at..][..length].parse::<f64>();
                let is_finite = number.is_ok_and(f64::is_finite);
                (length, if is_finite { Ok(Token::Other) } else { Err(BadJson::NumberOutOfRange) })
            }
            b'"' => match string_length(rest) {
                Ok(length) => (length, Ok(Token::Other)),
                Err(error) => (rest.len(), Err(error)),
            },
            b'[' | b'{' => {
                self.depth += 1;
                (1, if self.depth <= MAX_DEPTH { Ok(Token::Other) } else { Err(BadJson::TooDeep) })
            }
            b']' | b'}' => {
                self.depth = self.depth.saturating_sub(1);
                (1, Ok(Token::Other))
            }
            _ => (1, Ok(Token::Other)),
        };
        self.at += length;
        Some(token)
    }
}

/// Length of the string at the beginning of `json`, including the quotes.
fn string_length(json: &[u8]) -> Result<usize, BadJson> {
    let mut at = 1;
    while let Some(&byte) = json.get(at) {
        at += match byte {
            b'"' => return Ok(at + 1),
            b'\\' => match (escaped_unit(&json[at..]), json.get(at + 6..).and_then(escaped_unit)) {
                (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
                (Some(0xD800..=0xDFFF), _) => return Err(BadJson::LoneSurrogate),
                (Some(_), _) => 6,
                (None, _) => 2,
            },
            _ => 1,
        };
    }
    Ok(json.len())
}

/// UTF-16 code unit of the escape sequence `\uXXXX` at the beginning of `json`.
fn escaped_unit(json: &[u8]) -> Option<u16> {
    let digits = json.strip_prefix(br"\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_between_tokens_is_left_out() {
        for (json, compacted) in [
            ("1", "1"),
            (" 1 ", "1"),
            (" [ 1 ,\n\t2\r\n] ", "[1,2]"),
            (r#"{ "a b" : " c \" d \\" , "e" : " " }"#, r#"{"a b":" c \" d \\","e":" "}"#),
            (r#""\\\" ""#, r#""\\\" ""#),
            ("\"\u{2028} é\" ", "\"\u{2028} é\""),
            ("[true, -1.5e-3, null]", "[true,-1.5e-3,null]"),
        ] {
            assert_eq!(CompactJson::parse(json).expect(json).as_str(), compacted, "{json}");
        }
    }

    #[test]
    fn json_that_some_parsers_reject_is_refused() {
        let nested = |levels| "[".repeat(levels) + &"]".repeat(levels);
        let many = "[{}],".repeat(100);
        for (json, expected) in [
            (nested(MAX_DEPTH), Ok(())),
            (nested(MAX_DEPTH + 1), Err(BadJson::TooDeep)),
            (format!("[{many}0]"), Ok(())),
            (r#"{"a":[{"b":"[[[["}]}"#.into(), Ok(())),
            ("18446744073709551615".into(), Ok(())),
            ("-9223372036854775808".into(), Ok(())),
            ("1.7976931348623157e308".into(), Ok(())),
            ("1e-400".into(), Ok(())),
            ("1e400".into(), Err(BadJson::NumberOutOfRange)),
            ("[0, -1E+309]".into(), Err(BadJson::NumberOutOfRange)),
            ("9".repeat(400), Err(BadJson::NumberOutOfRange)),
            (r#""1e400""#.into(), Ok(())),
            (r#""\ud83d\ude00""#.into(), Ok(())),
            (r#""\u00e9\\ud83d""#.into(), Ok(())),
            (r#""\ud83d""#.into(), Err(BadJson::LoneSurrogate)),
            (r#""\ud83d\u0041""#.into(), Err(BadJson::LoneSurrogate)),
            (r#""\ud83d\ud83d\ude00""#.into(), Err(BadJson::LoneSurrogate)),
            (r#""\uDE00""#.into(), Err(BadJson::LoneSurrogate)),
            (r#"{"\udfff":1}"#.into(), Err(BadJson::LoneSurrogate)),
        ] {
            assert_eq!(CompactJson::parse(&json).map(drop), expected, "{json}");
        }
    }

    /// `parse` never panics, and its result decodes to the same value as its input.
    #[test]
    fn compacting_preserves_the_value() {
        use rand::rngs::SmallRng;
        use rand::{RngExt, SeedableRng};
        let seed = rand::rng().random();
        println!("seed {seed}");
        let mut rng = SmallRng::seed_from_u64(seed);
        let parts = [
            "{", "}", "[", "]", "\"", "\\", "u12", "ud83d", ":", ",", " ", "\n", "1", "-", "e9", "é", "true",
        ];
        for _ in 0..200_000 {
            let length = rng.random_range(0..12);
            let text: String = (0..length).map(|_| parts[rng.random_range(0..parts.len())]).collect();
            let compact = CompactJson::parse(&text);
            let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) else { continue };
            let compact = compact.unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(
                serde_json::from_str::<serde_json::Value>(compact.as_str()).ok(),
                Some(value),
                "{text}"
            );
        }
    }
}
