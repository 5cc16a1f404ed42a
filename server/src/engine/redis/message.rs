//! What servers tell each other through Redis, and what they find there. Anyone may have written it.

use std::time::Duration;

use encke_core::message::CompactJson;
use redis::{RedisError, Value, from_redis_value};
use serde_json::value::RawValue;

use super::connection::odd;

/// A message, as it was told.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) epoch: Box<str>,
    pub(super) offset: u64,
    /// Bytes that should be JSON.
    pub(super) data: Box<str>,
}

impl Told {
    /// `<epoch> <offset> <milliseconds> <data>`.
    pub(super) fn parse(payload: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(payload).ok()?.splitn(4, ' ');
        let (epoch, offset) = (words.next()?, number(words.next()?.parse().ok()?).ok()?);
        let _at: u64 = words.next()?.parse().ok()?;
        (offset > 0).then_some(())?;
        Some(Self { epoch: epoch.into(), offset, data: words.next()?.into() })
    }
}

/// What is known of a channel that was opened.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) epoch: Box<str>,
    /// Of the newest message.
    pub(super) offset: u64,
    /// Earlier epochs, and up to which message each is still right.
    pub(super) past: Box<[(Box<str>, u64)]>,
    /// Messages of its log, oldest first.
    pub(super) entries: Vec<Entry>,
}

/// A message, as a log has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) offset: u64,
    pub(super) age: Duration,
    /// Nothing, if it is not text.
    pub(super) data: Option<String>,
}

/// An entry of a stream: its id; a name, when it was added, a name, the message.
type RawEntry = (String, (String, u64, String, Vec<u8>));

impl Opened {
    /// What the script has returned, and entries of the log.
    pub(super) fn parse(script: Value, log: Value) -> Result<Self, RedisError> {
        let (epoch, offset, past, now_ms): (String, i64, String, u64) = from_redis_value(script)?;
        let offset = number(offset)?;
        let entries = Self::entries(log, now_ms)?;
        let words: Vec<&str> = past.split_whitespace().collect();
        let past = words.chunks_exact(2).filter_map(|pair| Some((pair[0].into(), pair[1].parse().ok()?)));
        Ok(Self { epoch: epoch.into(), offset, past: past.collect(), entries })
    }

    /// Entries of a log, at this time.
    pub(super) fn entries(log: Value, now_ms: u64) -> Result<Vec<Entry>, RedisError> {
        let raw: Vec<RawEntry> = from_redis_value(log)?;
        let entries = raw.into_iter().map(|(id, (_, at_ms, _, data))| {
            let offset = id.strip_prefix("0-").and_then(|number| number.parse().ok());
            Ok(Entry {
                offset: number(offset.ok_or_else(|| odd("a log has an id that is not ours"))?)?,
                age: Duration::from_millis(now_ms.saturating_sub(at_ms)),
                data: String::from_utf8(data).ok(),
            })
        });
        entries.collect()
    }

    /// Up to which message this epoch is still right.
    pub(super) fn cut(&self, epoch: &str) -> Option<u64> {
        let found = self.past.iter().find(|(past, _)| **past == *epoch);
        found.map(|(_, cut)| *cut)
    }
}

/// The number of a message. Redis counts to 2^63 - 1, and nothing here can overflow at that.
pub(super) fn number(offset: i64) -> Result<u64, RedisError> {
    u64::try_from(offset).map_err(|_| odd("the number of a message is negative"))
}

/// A message, if it is one that any client may be sent.
pub(super) fn json(data: &str) -> Option<CompactJson<'_>> {
    let json: &RawValue = serde_json::from_str(data).ok()?;
    CompactJson::parse(json.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn what_is_told() {
        let told = Told::parse(br#"e 7 1700000000000 "a b""#).expect("a message");
        assert_eq!(told, Told { epoch: "e".into(), offset: 7, data: r#""a b""#.into() });
        let beyond = "e 9223372036854775808 1 2";
        for other in ["", "e", "e 7", "e 7 1", "e x 1 2", "e 7 x 2", "e -1 1 2", "e 0 1 2", beyond] {
            assert_eq!(Told::parse(other.as_bytes()), None, "{other}");
        }
        assert_eq!(Told::parse(b"e 7 1 \xff"), None);
    }

    #[test]
    fn what_is_found() {
        let script = Value::Array(vec![bulk("e3"), Value::Int(9), bulk("e2 6 e1 4"), Value::Int(10_000)]);
        let entry = |id: &str, at: &str, data: Value| {
            Value::Array(vec![bulk(id), Value::Array(vec![bulk("t"), bulk(at), bulk("d"), data])])
        };
        let log = Value::Array(vec![
            entry("0-8", "9000", bulk("1")),
            entry("0-9", "11000", Value::BulkString(vec![0xff])),
        ]);
        let opened = Opened::parse(script.clone(), log).expect("an answer");
        assert_eq!((&*opened.epoch, opened.offset), ("e3", 9));
        assert_eq!((opened.cut("e2"), opened.cut("e1"), opened.cut("e3")), (Some(6), Some(4), None));
        let expected = [
            Entry { offset: 8, age: Duration::from_secs(1), data: Some("1".into()) },
            Entry { offset: 9, age: Duration::ZERO, data: None },
        ];
        assert_eq!(opened.entries, expected);
        for id in ["7-7", "0-18446744073709551615"] {
            assert!(Opened::parse(script.clone(), Value::Array(vec![entry(id, "1", bulk("1"))])).is_err());
        }
        let negative = Value::Array(vec![bulk("e"), Value::Int(-1), bulk(""), Value::Int(1)]);
        assert!(Opened::parse(negative, Value::Array(Vec::new())).is_err());
        assert!(Opened::parse(Value::Nil, Value::Nil).is_err());
    }
}
