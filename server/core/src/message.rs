//! What a channel carries, whatever the dialect of its readers.
//!
//! A log keeps a message as a dialect's text ([`crate::encodings::Encodings`]), which contains the data: so it is stored once.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::Serialize;

/// A message of a channel.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The channel.
    pub channel: &'a str,
    /// The epoch of the channel's log: offsets of different epochs do not compare.
    pub epoch: &'a str,
    /// Its number in the log.
    pub offset: u64,
    /// When it was published, in milliseconds since 1970, if its readers are told.
    pub at_ms: Option<u64>,
    /// What was published.
    pub content: &'a Content<'a>,
}

/// What a message tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// What a client, or an operator, has said.
    #[default]
    Data,
    /// The server says that a session follows the channel from now on: the data is what others may see of it.
    Joined,
    /// The server says that it does no longer.
    Left,
}

impl Kind {
    /// What the data is called on the wire: nobody can publish under another name than `data`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Joined => "joined",
            Self::Left => "left",
        }
    }
}

/// What was published, and by whom.
#[derive(Clone, Debug)]
pub struct Content<'a> {
    /// What the data tells.
    pub kind: Kind,
    /// The user whose client has published it, if it has a name. It is the server's word.
    pub user: Option<Cow<'a, str>>,
    /// When, in milliseconds since 1970, if that was elsewhere.
    pub at_ms: Option<u64>,
    /// What that client, or an operator, has said; or whom the server speaks of.
    pub data: CompactJson<'a>,
}

impl Content<'_> {
    /// The same, for longer than the text it was parsed from.
    #[must_use]
    pub fn into_owned(self) -> Content<'static> {
        let user = self.user.map(|user| user.into_owned().into());
        Content { kind: self.kind, user, at_ms: self.at_ms, data: self.data.into_owned() }
    }
}

impl Content<'static> {
    /// The server says that a session comes or goes.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn of_follower(kind: Kind, session: &str, user: Option<&str>) -> Self {
        let follower = serde_json::to_string(&Follower { session, user });
        let data = CompactJson(follower.expect("our own types have string keys and serialize").into());
        Self { kind, user: None, at_ms: None, data }
    }
}

/// What others are told of a session that comes or goes.
#[derive(Serialize)]
struct Follower<'a> {
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
}

/// Of nobody by name.
impl<'a> From<CompactJson<'a>> for Content<'a> {
    fn from(data: CompactJson<'a>) -> Self {
        Self { kind: Kind::Data, user: None, at_ms: None, data }
    }
}

/// What the server says of a message to all its readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp<'a> {
    /// What its data tells.
    pub kind: Kind,
    /// The user whose client has published it, if it has a name.
    pub user: Option<JsonString<'a>>,
    /// When it was published, in milliseconds since 1970, if its readers are told.
    pub at_ms: Option<u64>,
}

/// A string as JSON has it, quotes included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonString<'a>(&'a str);

impl<'a> JsonString<'a> {
    /// `json` was written as a string.
    pub(crate) fn already(json: &'a str) -> Self {
        Self(json)
    }

    /// As it is.
    #[must_use]
    pub fn as_json(self) -> &'a str {
        self.0
    }

    /// What it stands for.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn to_text(self) -> String {
        serde_json::from_str(self.0).expect("it was written as a string")
    }
}

/// JSON without white space between its tokens. It has no line breaks, so it fits into one line of an event stream.
///
/// What one client publishes, the parsers of all others must take. So it is I-JSON (RFC 7493) as far as values go: strings
/// are Unicode, numbers are within the range of a double. And it is not nested deeper than [`MOST_LEVELS`].
#[derive(Clone, Debug)]
pub struct CompactJson<'a>(Cow<'a, str>);

/// Arrays and objects within each other. Parsers give up at a hundred and more.
pub const MOST_LEVELS: usize = 64;

/// JSON that not every parser takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadJson {
    /// It has more than [`MOST_LEVELS`].
    TooDeep,
    /// A number is beyond the range of a double.
    NumberOutOfRange,
    /// A string has half of a surrogate pair.
    LoneSurrogate,
}

impl fmt::Display for BadJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooDeep => write!(f, "data is nested deeper than {MOST_LEVELS} levels"),
            Self::NumberOutOfRange => f.write_str("data has a number beyond the range of a double"),
            Self::LoneSurrogate => f.write_str("data has a string with half of a surrogate pair"),
        }
    }
}

impl std::error::Error for BadJson {}

impl<'a> CompactJson<'a> {
    /// `json` must be JSON. What is inside its strings stays. Copies only if there is white space to leave out.
    ///
    /// # Errors
    /// [`BadJson`].
    pub fn parse(json: &'a str) -> Result<Self, BadJson> {
        let mut tokens = Tokens { json, at: 0, levels: 0 };
        let mut compact = String::new();
        // What stands before this is in `compact`, unless nothing had to be left out so far.
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

    /// `json` is what [`Self::as_str`] returned.
    pub(crate) fn already(json: &'a str) -> Self {
        Self(Cow::Borrowed(json))
    }

    /// The same, for longer than the text it was parsed from.
    #[must_use]
    pub fn into_owned(self) -> CompactJson<'static> {
        CompactJson(self.0.into_owned().into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The tokens of a JSON text, as far as [`CompactJson::parse`] tells them apart.
struct Tokens<'a> {
    json: &'a str,
    at: usize,
    levels: usize,
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
                self.levels += 1;
                (1, if self.levels <= MOST_LEVELS { Ok(Token::Other) } else { Err(BadJson::TooDeep) })
            }
            b']' | b'}' => {
                self.levels = self.levels.saturating_sub(1);
                (1, Ok(Token::Other))
            }
            _ => (1, Ok(Token::Other)),
        };
        self.at += length;
        Some(token)
    }
}

/// The length of the string that begins here, quotes included.
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

/// The UTF-16 code unit that an escape `\uXXXX` at the beginning stands for.
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
    fn what_some_parsers_do_not_take_is_refused() {
        let nested = |levels| "[".repeat(levels) + &"]".repeat(levels);
        let many = "[{}],".repeat(100);
        for (json, expected) in [
            (nested(MOST_LEVELS), Ok(())),
            (nested(MOST_LEVELS + 1), Err(BadJson::TooDeep)),
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

    /// Whatever it is given, it does not panic, and JSON stays the same JSON.
    #[test]
    fn a_compact_text_is_the_same_json() {
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
