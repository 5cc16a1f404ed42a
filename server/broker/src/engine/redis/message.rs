//! Parsing of channel messages and log entries in Redis. Their content is not trusted: anyone with access to
//! Redis may have written it.

use std::borrow::Cow;
use std::time::Duration;

use encke_core::message::{CompactJson, Content, ContentKind};
use redis::{RedisError, Value, from_redis_value};
use serde_json::value::RawValue;

use super::errors::unexpected;

/// A message received through a feed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FeedMessage {
    pub(super) epoch: Box<str>,
    pub(super) offset: u64,
    /// User whose client published the message.
    user: Option<Box<str>>,
    at_ms: u64,
    /// Text that is expected to be JSON.
    data: Box<str>,
}

impl FeedMessage {
    /// Parses `<epoch> <offset> <milliseconds> <data>` or, for a named user, `<epoch> <offset>
    /// <milliseconds>:<bytes> <user> <data>`.
    pub(super) fn parse(payload: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(payload).ok()?.splitn(4, ' ');
        let (epoch, offset) = (words.next()?, parse_offset(words.next()?.parse().ok()?).ok()?);
        let (at, rest) = (words.next()?, words.next()?);
        let (at, user, data) = match at.split_once(':') {
            None => (at, None, rest),
            Some((at, bytes)) => {
                let (user, rest) = rest.split_at_checked(bytes.parse().ok()?)?;
                (at, Some(user.into()), rest.strip_prefix(' ')?)
            }
        };
        let at_ms = at.parse().ok()?;
        (offset > 0).then_some(())?;
        Some(Self { epoch: epoch.into(), offset, user, at_ms, data: data.into() })
    }

    /// Returns the content, or `None` if it is not valid and must not be sent to clients.
    pub(super) fn content(&self) -> Option<Content<'_>> {
        let user = self.user.as_deref().map(Into::into);
        let (kind, data) = decode(&self.data)?;
        Some(Content { kind, user, at_ms: Some(self.at_ms), data })
    }
}

/// State of a channel in Redis, as found by opening it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OpenedChannel {
    pub(super) epoch: Box<str>,
    /// Offset of the newest message.
    pub(super) offset: u64,
    /// Earlier epochs, each with the offset of its last message that is valid in the current one.
    pub(super) past: Box<[(Box<str>, u64)]>,
    /// Messages in the log, oldest first.
    pub(super) entries: Vec<LogEntry>,
}

/// A message in a log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LogEntry {
    pub(super) offset: u64,
    pub(super) age: Duration,
    at_ms: u64,
    /// User, if named, and data; `None` if either is not UTF-8.
    text: Option<(Option<String>, String)>,
}

impl LogEntry {
    fn parse((id, fields): RawEntry, now_ms: u64) -> Result<Self, RedisError> {
        let offset = id.strip_prefix("0-").and_then(|number| number.parse().ok());
        let (mut at_ms, mut user, mut data) = (None, None, None);
        let mut fields = fields.into_iter();
        while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
            match &*name {
                b"t" => at_ms = std::str::from_utf8(&value).ok().and_then(|at| at.parse().ok()),
                b"d" => data = Some(value),
                b"u" => user = Some(value),
                // Ignore fields from later versions.
                _ => {}
            }
        }
        let (Some(at_ms), Some(data)) = (at_ms, data) else {
            return Err(unexpected("log entry without time or data"));
        };
        let user = user.map(String::from_utf8).transpose();
        Ok(Self {
            offset: parse_offset(offset.ok_or_else(|| unexpected("log entry with an unexpected id"))?)?,
            age: Duration::from_millis(now_ms.saturating_sub(at_ms)),
            at_ms,
            text: user.and_then(|user| Ok((user, String::from_utf8(data)?))).ok(),
        })
    }

    /// Returns the size of the user and the data, in bytes.
    pub(super) fn size(&self) -> usize {
        self.text.as_ref().map_or(0, |(user, data)| user.as_ref().map_or(0, String::len) + data.len())
    }

    /// Whether this is a valid message that was published, rather than a join or a leave.
    pub(super) fn is_data(&self) -> bool {
        self.content().is_some_and(|content| content.kind == ContentKind::Data)
    }

    /// Returns the content, or `None` if it is not valid and must not be sent to clients.
    pub(super) fn content(&self) -> Option<Content<'_>> {
        let (user, data) = self.text.as_ref()?;
        let user = user.as_deref().map(Into::into);
        let (kind, data) = decode(data)?;
        Some(Content { kind, user, at_ms: Some(self.at_ms), data })
    }
}

/// Stream entry: its id, and the names and values of its fields. `t` is the time of the append, `d` the data,
/// and `u` the user, if named.
type RawEntry = (String, Vec<Vec<u8>>);

impl OpenedChannel {
    /// Parses the results of the script and of reading the log.
    pub(super) fn parse(script: Value, log: Value) -> Result<Self, RedisError> {
        let (epoch, offset, past, now_ms): (String, i64, String, u64) = from_redis_value(script)?;
        let offset = parse_offset(offset)?;
        let entries = Self::entries(log, now_ms)?;
        let words: Vec<&str> = past.split_whitespace().collect();
        let past = words.chunks_exact(2).filter_map(|pair| Some((pair[0].into(), pair[1].parse().ok()?)));
        Ok(Self { epoch: epoch.into(), offset, past: past.collect(), entries })
    }

    /// Parses log entries; `now_ms` is the current time according to Redis.
    pub(super) fn entries(log: Value, now_ms: u64) -> Result<Vec<LogEntry>, RedisError> {
        let raw: Vec<RawEntry> = from_redis_value(log)?;
        raw.into_iter().map(|entry| LogEntry::parse(entry, now_ms)).collect()
    }

    /// Offset of the last message of an earlier epoch that is valid in the current one.
    pub(super) fn cut(&self, epoch: &str) -> Option<u64> {
        let found = self.past.iter().find(|(past, _)| **past == *epoch);
        found.map(|(_, cut)| *cut)
    }
}

/// Converts an offset. Redis offsets are at most 2^63 - 1, so arithmetic on them cannot overflow.
pub(super) fn parse_offset(offset: i64) -> Result<u64, RedisError> {
    u64::try_from(offset).map_err(|_| unexpected("negative message offset"))
}

/// Text of a message as stored in Redis: the data, preceded by a keyword for a join or leave. JSON never
/// begins with these keywords.
pub(super) fn encode<'a>(content: &'a Content<'_>) -> Cow<'a, str> {
    let data = content.data.as_str();
    match content.kind {
        ContentKind::Data => data.into(),
        kind => format!("{} {data}", kind.name()).into(),
    }
}

/// Inverse of [`encode`]. Returns `None` if the text is not valid and must not be sent to clients.
fn decode(text: &str) -> Option<(ContentKind, CompactJson<'_>)> {
    let event = [ContentKind::Joined, ContentKind::Left].into_iter().find_map(|kind| {
        let data = text.strip_prefix(kind.name())?.strip_prefix(' ')?;
        Some((kind, data))
    });
    let (kind, data) = event.unwrap_or((ContentKind::Data, text));
    let json: &RawValue = serde_json::from_str(data).ok()?;
    Some((kind, CompactJson::parse(json.get()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn feed_messages_are_parsed() {
        let message = FeedMessage::parse(br#"e 7 1700000000000 "a b""#).expect("a message");
        assert_eq!(
            message,
            FeedMessage {
                epoch: "e".into(),
                offset: 7,
                user: None,
                at_ms: 1_700_000_000_000,
                data: r#""a b""#.into()
            }
        );
        let message = FeedMessage::parse("e 7 1700000000000:6 \u{e9} 1 x 2 3".as_bytes()).expect("a message");
        let user = Some("\u{e9} 1 x".into());
        assert_eq!(
            message,
            FeedMessage { epoch: "e".into(), offset: 7, user, at_ms: 1_700_000_000_000, data: "2 3".into() }
        );
        let message = FeedMessage::parse(
            br#"e 7 1:5 a"\
b {"c":1}"#,
        )
        .expect("a message");
        let content = message.content().expect("valid JSON");
        assert_eq!((content.user.as_deref(), content.data.as_str()), (Some("a\"\\\nb"), r#"{"c":1}"#));
        for (data, kind) in [
            (r#"joined {"session":"s"}"#, ContentKind::Joined),
            (r#"left {"session":"s"}"#, ContentKind::Left),
        ] {
            let message = FeedMessage::parse(format!("e 7 1 {data}").as_bytes()).expect("a message");
            let content = message.content().expect("valid JSON");
            assert_eq!((content.kind, content.data.as_str()), (kind, r#"{"session":"s"}"#));
            assert_eq!(encode(&content), data);
        }
        for other in ["joined", "joined ", "joined{}", "left x", "came {}", " joined {}", "joined joined {}"]
        {
            let message = FeedMessage::parse(format!("e 7 1 {other}").as_bytes());
            assert!(message.is_none_or(|message| message.content().is_none()), "{other}");
        }
        let beyond = "e 9223372036854775808 1 2";
        for other in
            ["e 7 1:2 ab", "e 7 1:2 abc 1", "e 7 1:9 ab 1", "e 7 1:x ab 1", "e 7 :2 ab 1", "e 7 1:1 \u{e9} 1"]
        {
            assert_eq!(FeedMessage::parse(other.as_bytes()), None, "{other}");
        }
        for other in ["", "e", "e 7", "e 7 1", "e x 1 2", "e 7 x 2", "e -1 1 2", "e 0 1 2", beyond] {
            assert_eq!(FeedMessage::parse(other.as_bytes()), None, "{other}");
        }
        assert_eq!(FeedMessage::parse(b"e 7 1 \xff"), None);
    }

    #[test]
    fn opened_channels_are_parsed() {
        let script = Value::Array(vec![bulk("e3"), Value::Int(9), bulk("e2 6 e1 4"), Value::Int(10_000)]);
        let entry = |id: &str, at: &str, data: Value| {
            Value::Array(vec![bulk(id), Value::Array(vec![bulk("t"), bulk(at), bulk("d"), data])])
        };
        let by = |id: &str, user: Value| {
            let fields =
                vec![bulk("u"), user, bulk("t"), bulk("10000"), bulk("new"), bulk("1"), bulk("d"), bulk("2")];
            Value::Array(vec![bulk(id), Value::Array(fields)])
        };
        let log = Value::Array(vec![
            entry("0-8", "9000", bulk("1")),
            entry("0-9", "11000", Value::BulkString(vec![0xff])),
            by("0-10", bulk("al ice")),
            by("0-11", Value::BulkString(vec![0xff])),
        ]);
        let opened = OpenedChannel::parse(script.clone(), log).expect("a valid reply");
        assert_eq!((&*opened.epoch, opened.offset), ("e3", 9));
        assert_eq!((opened.cut("e2"), opened.cut("e1"), opened.cut("e3")), (Some(6), Some(4), None));
        let expected = [
            LogEntry { offset: 8, age: Duration::from_secs(1), at_ms: 9_000, text: Some((None, "1".into())) },
            LogEntry { offset: 9, age: Duration::ZERO, at_ms: 11_000, text: None },
            LogEntry {
                offset: 10,
                age: Duration::ZERO,
                at_ms: 10_000,
                text: Some((Some("al ice".into()), "2".into())),
            },
            LogEntry { offset: 11, age: Duration::ZERO, at_ms: 10_000, text: None },
        ];
        assert_eq!(opened.entries, expected);
        let no_data = Value::Array(vec![bulk("0-8"), Value::Array(vec![bulk("t"), bulk("1")])]);
        assert!(OpenedChannel::parse(script.clone(), Value::Array(vec![no_data])).is_err());
        for id in ["7-7", "0-18446744073709551615"] {
            assert!(
                OpenedChannel::parse(script.clone(), Value::Array(vec![entry(id, "1", bulk("1"))])).is_err()
            );
        }
        let negative = Value::Array(vec![bulk("e"), Value::Int(-1), bulk(""), Value::Int(1)]);
        assert!(OpenedChannel::parse(negative, Value::Array(Vec::new())).is_err());
        assert!(OpenedChannel::parse(Value::Nil, Value::Nil).is_err());
    }
}
