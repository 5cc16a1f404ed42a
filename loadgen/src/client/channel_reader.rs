//! Channel messages, gaps and replies, in the `json` dialect and in Bayeux.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::bayeux_reader::BayeuxReader;
use crate::target::Target;

/// One object from the server.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// A message. `data` is its JSON text.
    Message {
        seq: u64,
        offset: u64,
        data: &'a str,
    },
    /// A gap. `messages` is the number of missing messages; 0 if the gap gives no range.
    Gap {
        seq: u64,
        messages: u64,
    },
    /// Reply to a command, with the code if it is an error.
    Reply(Option<Cow<'a, str>>),
    /// Message of a protocol that does not number its messages.
    UnnumberedMessage {
        data: &'a str,
    },
    /// Gap of a protocol that does not number its messages.
    UnnumberedGap {
        messages: u64,
    },
    /// Message or gap of another channel. Its seq belongs to the same session.
    OtherChannel {
        seq: u64,
    },
    /// The server is about to close, and announces how long the client should stay away.
    Goaway {
        retry: Duration,
    },
    Other,
}

/// Reads objects for the subscribers of one channel.
#[derive(Debug)]
pub struct ChannelReader(Protocol);

#[derive(Debug)]
enum Protocol {
    Json(JsonReader),
    Bayeux(BayeuxReader),
}

/// Reads objects of the `json` dialect.
#[derive(Debug)]
struct JsonReader {
    channel: String,
    /// Text between a message's seq and its offset when the fields are in the usual order.
    between: String,
}

impl ChannelReader {
    /// Creates a reader for the `json` dialect.
    pub fn new(channel: &str) -> Self {
        Self(Protocol::Json(JsonReader::new(channel)))
    }

    pub(crate) fn of(target: Target, channel: &str) -> Self {
        match target {
            Target::Bayeux => Self(Protocol::Bayeux(BayeuxReader::new(channel))),
            _ => Self::new(channel),
        }
    }

    /// Reads an object.
    pub fn read<'a>(&self, text: &'a str) -> Received<'a> {
        match &self.0 {
            Protocol::Json(reader) => reader.read(text),
            Protocol::Bayeux(reader) => reader.read(text),
        }
    }
}

impl JsonReader {
    fn new(channel: &str) -> Self {
        let quoted = serde_json::Value::from(channel);
        Self { channel: channel.to_owned(), between: format!(r#","channel":{quoted},"offset":"#) }
    }

    /// Reads an object. Called for every delivery, so messages in the usual form are read without a JSON
    /// parser.
    fn read<'a>(&self, text: &'a str) -> Received<'a> {
        self.read_message(text).unwrap_or_else(|| self.parse(text))
    }

    fn read_message<'a>(&self, text: &'a str) -> Option<Received<'a>> {
        let rest = text.strip_prefix(r#"{"message":{"seq":"#)?;
        let (seq, rest) = take_number(rest)?;
        let (offset, rest) = take_number(rest.strip_prefix(self.between.as_str())?)?;
        let data = rest.strip_prefix(r#","data":"#)?.strip_suffix("}}")?;
        Some(Received::Message { seq, offset, data })
    }

    fn parse<'a>(&self, text: &'a str) -> Received<'a> {
        match serde_json::from_str(text) {
            Ok(ServerObject::Message(message)) if message.channel != self.channel => {
                Received::OtherChannel { seq: message.seq }
            }
            Ok(ServerObject::Message(MessageFields { seq, offset, data, .. })) => {
                Received::Message { seq, offset, data: data.get() }
            }
            Ok(ServerObject::Gap(gap)) if gap.channel != self.channel => {
                Received::OtherChannel { seq: gap.seq }
            }
            Ok(ServerObject::Gap(GapFields { seq, from, to, .. })) => {
                let messages = from.zip(to).and_then(|(from, to)| (to + 1).checked_sub(from)).unwrap_or(0);
                Received::Gap { seq, messages }
            }
            Ok(ServerObject::Reply(reply)) => Received::Reply(reply.error.map(|error| error.code)),
            Ok(ServerObject::Goaway(goaway)) => {
                Received::Goaway { retry: Duration::from_millis(goaway.retry_ms) }
            }
            Err(_) => Received::Other,
        }
    }
}

/// Parses the digits at the beginning of a string. Returns the number and the rest of the string.
pub(crate) fn take_number(text: &str) -> Option<(u64, &str)> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ServerObject<'a> {
    #[serde(borrow)]
    Message(MessageFields<'a>),
    #[serde(borrow)]
    Gap(GapFields<'a>),
    #[serde(borrow)]
    Reply(ReplyFields<'a>),
    Goaway(Goaway),
}

#[derive(Deserialize)]
struct MessageFields<'a> {
    seq: u64,
    #[serde(default)]
    offset: u64,
    #[serde(borrow)]
    channel: Cow<'a, str>,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Deserialize)]
struct GapFields<'a> {
    seq: u64,
    #[serde(borrow)]
    channel: Cow<'a, str>,
    from: Option<u64>,
    to: Option<u64>,
}

#[derive(Deserialize)]
struct ReplyFields<'a> {
    #[serde(borrow)]
    error: Option<ReplyError<'a>>,
}

#[derive(Deserialize)]
struct Goaway {
    retry_ms: u64,
}

#[derive(Deserialize)]
struct ReplyError<'a> {
    #[serde(borrow)]
    code: Cow<'a, str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Received<'_> {
        ChannelReader::new("news").read(text)
    }

    #[test]
    fn messages_are_read_in_any_order_of_fields() {
        let expected = Received::Message { seq: 57, offset: 42, data: r#"{"a":"}}"}"# };
        let usual = r#"{"message":{"seq":57,"channel":"news","offset":42,"data":{"a":"}}"}}}"#;
        let unusual = r#"{"message": {"data":{"a":"}}"},"offset":42,"new":1,"channel":"news","seq":57}}"#;
        assert_eq!(read(usual), expected);
        assert!(JsonReader::new("news").read_message(usual).is_some(), "without a parser");
        assert!(JsonReader::new("news").read_message(unusual).is_none());
        assert_eq!(read(unusual), expected);
    }

    #[test]
    fn other_channels_have_a_seq_only() {
        let text = r#"{"message":{"seq":57,"channel":"news2","offset":42,"data":1}}"#;
        assert_eq!(read(text), Received::OtherChannel { seq: 57 });
        assert_eq!(
            read(r#"{"gap":{"seq":58,"channel":"old","epoch":"e"}}"#),
            Received::OtherChannel { seq: 58 }
        );
        let quoted = r#"{"message":{"seq":1,"channel":"a\"b","offset":1,"data":1}}"#;
        assert_eq!(
            ChannelReader::new("a\"b").read(quoted),
            Received::Message { seq: 1, offset: 1, data: "1" }
        );
    }

    #[test]
    fn gaps_name_messages_or_not() {
        let gap = r#"{"gap":{"seq":58,"channel":"news","epoch":"e","from":10,"to":35}}"#;
        assert_eq!(read(gap), Received::Gap { seq: 58, messages: 26 });
        assert_eq!(
            read(r#"{"gap":{"seq":58,"channel":"news","epoch":"e"}}"#),
            Received::Gap { seq: 58, messages: 0 }
        );
    }

    #[test]
    fn a_goaway_says_when_to_reconnect() {
        let text = r#"{"goaway":{"reason":"moved","retry_ms":1205}}"#;
        assert_eq!(read(text), Received::Goaway { retry: Duration::from_millis(1205) });
    }

    #[test]
    fn replies_report_success_or_an_error() {
        assert_eq!(read(r#"{"reply":{"id":7,"ok":{"channel":"news"}}}"#), Received::Reply(None));
        let refused = r#"{"reply":{"id":7,"error":{"code":"forbidden","message":"no"}}}"#;
        assert_eq!(read(refused), Received::Reply(Some("forbidden".into())));
        for other in
            ["", "x", r#"{"goaway":{}}"#, r#"{"message":{"seq":57"#, r#"{"message":{"seq":,"channel""#]
        {
            assert_eq!(read(other), Received::Other, "{other}");
        }
    }
}
