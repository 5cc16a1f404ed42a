//! Channel messages, gaps and replies, in the `json` dialect and in Bayeux.

use std::borrow::Cow;
use std::time::Duration;

use encke_core::dialect::json::ServerMessage;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json::{is_reply, take_number};
use crate::target::Target;

#[derive(Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// A message. `data` is its JSON text. Without seqs in the protocol, the offset is 0.
    Message {
        seq: Option<u64>,
        offset: u64,
        data: &'a str,
    },
    /// A gap. `messages` is the number of missing messages; 0 if the gap gives no range.
    Gap {
        seq: Option<u64>,
        messages: u64,
    },
    /// Reply to a command, with the code if it is an error.
    Reply(Option<Cow<'a, str>>),
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
pub struct ChannelReader {
    is_bayeux: bool,
    channel: String,
    /// Text of a message with its fields in the usual order: before its data in Bayeux, otherwise between its
    /// seq and its offset.
    usual: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum JsonReply<'a> {
    Reply {
        #[serde(borrow)]
        error: Option<JsonError<'a>>,
    },
}

#[derive(Deserialize)]
struct JsonError<'a> {
    #[serde(borrow)]
    code: Cow<'a, str>,
}

#[derive(Deserialize)]
struct BayeuxMessage<'a> {
    #[serde(borrow)]
    channel: Option<Cow<'a, str>>,
    successful: Option<bool>,
    #[serde(borrow)]
    error: Option<Cow<'a, str>>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    /// Encke's extension that reports messages it no longer has.
    #[serde(borrow)]
    gap: Option<BayeuxGap<'a>>,
}

#[derive(Deserialize)]
struct BayeuxGap<'a> {
    #[serde(borrow)]
    channel: Cow<'a, str>,
    from: Option<u64>,
    to: Option<u64>,
}

impl ChannelReader {
    pub fn new(target: Target, channel: &str) -> Self {
        let (is_bayeux, quoted) = (target == Target::Bayeux, Value::from(channel));
        let usual = if is_bayeux {
            format!(r#"{{"channel":{quoted},"data":"#)
        } else {
            format!(r#","channel":{quoted},"offset":"#)
        };
        Self { is_bayeux, channel: channel.to_owned(), usual }
    }

    /// Reads an object. Called for every delivery, so messages in the usual form are read without a JSON
    /// parser.
    pub fn read<'a>(&self, text: &'a str) -> Received<'a> {
        let read = if self.is_bayeux {
            self.usual_bayeux(text).or_else(|| self.parse_bayeux(text))
        } else {
            self.usual_json(text).or_else(|| self.parse_json(text))
        };
        read.unwrap_or(Received::Other)
    }

    fn usual_json<'a>(&self, text: &'a str) -> Option<Received<'a>> {
        let rest = text.strip_prefix(r#"{"message":{"seq":"#)?;
        let (seq, rest) = take_number(rest)?;
        let (offset, rest) = take_number(rest.strip_prefix(self.usual.as_str())?)?;
        let data = rest.strip_prefix(r#","data":"#)?.strip_suffix("}}")?;
        Some(Received::Message { seq: Some(seq), offset, data })
    }

    fn parse_json<'a>(&self, text: &'a str) -> Option<Received<'a>> {
        if is_reply(text) {
            let JsonReply::Reply { error } = serde_json::from_str(text).ok()?;
            return Some(Received::Reply(error.map(|error| error.code)));
        }
        Some(match serde_json::from_str(text).ok()? {
            ServerMessage::Message(message) if message.channel != self.channel => {
                Received::OtherChannel { seq: message.seq }
            }
            ServerMessage::Message(message) => Received::Message {
                seq: Some(message.seq),
                offset: message.offset,
                data: message.data?.get(),
            },
            ServerMessage::Gap(gap) if gap.channel != self.channel => Received::OtherChannel { seq: gap.seq },
            ServerMessage::Gap(gap) => {
                Received::Gap { seq: Some(gap.seq), messages: missing(gap.from, gap.to) }
            }
            ServerMessage::Goaway(goaway) => {
                Received::Goaway { retry: Duration::from_millis(goaway.retry_ms) }
            }
            _ => Received::Other,
        })
    }

    fn usual_bayeux<'a>(&self, text: &'a str) -> Option<Received<'a>> {
        let data = text.strip_prefix(&self.usual)?.strip_suffix('}')?;
        // Other fields may follow the data, unless it is a string without quotes and escapes.
        let inner = data.strip_prefix('"')?.strip_suffix('"')?;
        (!inner.contains(['"', '\\'])).then_some(Received::Message { seq: None, offset: 0, data })
    }

    fn parse_bayeux<'a>(&self, text: &'a str) -> Option<Received<'a>> {
        let message: BayeuxMessage<'a> = serde_json::from_str(text).ok()?;
        if let Some(BayeuxGap { channel, from, to }) = message.gap {
            let messages = missing(from, to);
            return (channel == self.channel).then_some(Received::Gap { seq: None, messages });
        }
        match message.successful {
            Some(true) => Some(Received::Reply(None)),
            Some(false) => Some(Received::Reply(Some(code_of(&message.error.unwrap_or_default()).into()))),
            None => {
                let data = message.data.filter(|_| message.channel.as_deref() == Some(&self.channel))?;
                Some(Received::Message { seq: None, offset: 0, data: data.get() })
            }
        }
    }
}

/// Returns the number of missing messages; 0 if a gap gives no range.
fn missing(from: Option<u64>, to: Option<u64>) -> u64 {
    from.zip(to).and_then(|(from, to)| (to + 1).checked_sub(from)).unwrap_or(0)
}

/// Returns the number at the beginning of a Bayeux error like `402:client-id:reason`.
pub(crate) fn code_of(error: &str) -> String {
    let code = error.split(':').next().unwrap_or_default();
    let is_code = !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_digit());
    if is_code { code.to_owned() } else { "unsuccessful".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_objects_are_read() {
        let reader = ChannelReader::new(Target::Encke, "news");
        let usual = r#"{"message":{"seq":57,"channel":"news","offset":42,"data":{"a":"}}"}}}"#;
        assert!(reader.usual_json(usual).is_some(), "without a parser");
        let message = || Received::Message { seq: Some(57), offset: 42, data: r#"{"a":"}}"}"# };
        for (text, expected) in [
            (usual, message()),
            (r#"{"message": {"data":{"a":"}}"},"offset":42,"new":1,"channel":"news","seq":57}}"#, message()),
            (
                r#"{"message":{"seq":57,"channel":"news2","offset":42,"data":1}}"#,
                Received::OtherChannel { seq: 57 },
            ),
            (r#"{"gap":{"seq":58,"channel":"old","epoch":"e"}}"#, Received::OtherChannel { seq: 58 }),
            (
                r#"{"gap":{"seq":58,"channel":"news","epoch":"e","from":10,"to":35}}"#,
                Received::Gap { seq: Some(58), messages: 26 },
            ),
            (
                r#"{"gap":{"seq":58,"channel":"news","epoch":"e"}}"#,
                Received::Gap { seq: Some(58), messages: 0 },
            ),
            (
                r#"{"goaway":{"reason":"moved","retry_ms":1205}}"#,
                Received::Goaway { retry: Duration::from_millis(1205) },
            ),
            (r#"{"reply":{"id":7,"ok":{"channel":"news"}}}"#, Received::Reply(None)),
            (
                r#"{"reply":{"id":7,"error":{"code":"new","message":"no"}}}"#,
                Received::Reply(Some("new".into())),
            ),
            ("x", Received::Other),
            (r#"{"goaway":{}}"#, Received::Other),
            (r#"{"message":{"seq":,"channel""#, Received::Other),
        ] {
            assert_eq!(reader.read(text), expected, "{text}");
        }
        let quoted = r#"{"message":{"seq":1,"channel":"a\"b","offset":1,"data":1}}"#;
        assert!(ChannelReader::new(Target::Encke, "a\"b").usual_json(quoted).is_some());
    }

    #[test]
    fn bayeux_messages_are_read() {
        let reader = ChannelReader::new(Target::Bayeux, "/news");
        let message = |data| Received::Message { seq: None, offset: 0, data };
        let refused = |code: &'static str| Received::Reply(Some(code.into()));
        for (text, expected) in [
            (r#"{"channel":"/news","data":"a"}"#, message(r#""a""#)),
            (r#"{"channel":"/news","data":"a","id":"7"}"#, message(r#""a""#)),
            (r#"{"id":"7", "data":{"a":1},"channel":"/news"}"#, message(r#"{"a":1}"#)),
            (r#"{"channel":"/other","data":"a"}"#, Received::Other),
            (r#"{"channel":"/meta/subscribe","id":"1","successful":true}"#, Received::Reply(None)),
            (r#"{"channel":"/news","successful":true,"id":"1"}"#, Received::Reply(None)),
            (r#"{"channel":"/news","successful":false,"error":"403:/news:no"}"#, refused("403")),
            (r#"{"channel":"/news","successful":false}"#, refused("unsuccessful")),
            (
                r#"{"gap":{"channel":"/news","epoch":"e","from":3,"to":5}}"#,
                Received::Gap { seq: None, messages: 3 },
            ),
            (r#"{"gap":{"channel":"/other","epoch":"e"}}"#, Received::Other),
            ("x", Received::Other),
        ] {
            assert_eq!(reader.read(text), expected, "{text}");
        }
    }
}
