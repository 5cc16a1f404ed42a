//! What the healthy session says, and how it understands the answers.

use serde::Deserialize;
use serde_json::Value;

use super::Position;
use crate::client::{ChannelReader, Event, Received};
use crate::target::Target;
use crate::transport::websocket::{Opcode, write_frame};

/// The id of the subscription; message n has the id n + 2.
const SUBSCRIPTION: u64 = 1;
const FIRST_MESSAGE: u64 = 2;

#[derive(Debug)]
pub(super) enum Talk {
    /// Publishes to a channel that it follows.
    Channel { quoted: String, reader: ChannelReader },
    /// Pings.
    Pings,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    Subscribed(Position),
    Arrived { number: u32, offset: u64 },
    Confirmed(u32),
    Refused { number: u32, code: String },
    Gap,
    Other,
}

impl Talk {
    pub(super) fn new(target: Target, channel: &str) -> Self {
        match target {
            Target::Encke => {
                let quoted = Value::from(channel).to_string();
                Self::Channel { quoted, reader: ChannelReader::new(channel) }
            }
            Target::Plain | Target::Sse | Target::Socketio | Target::Poll | Target::Bayeux => Self::Pings,
        }
    }

    /// Whether a message is confirmed before it arrives.
    pub(super) fn confirms(&self) -> bool {
        matches!(self, Self::Channel { .. })
    }

    pub(super) fn subscribe(&self, since: Option<&Position>) -> Option<String> {
        let Self::Channel { quoted, .. } = self else { return None };
        let since = since.map_or_else(String::new, |Position { epoch, offset }| {
            format!(r#","since":{{"epoch":{},"offset":{offset}}}"#, Value::from(epoch.as_str()))
        });
        Some(format!(r#"{{"id":{SUBSCRIPTION},"subscribe":{{"channel":{quoted}{since}}}}}"#))
    }

    /// The frame of the message of this number.
    pub(super) fn say(&self, number: u32) -> Vec<u8> {
        let mut frame = Vec::new();
        match self {
            Self::Channel { quoted, .. } => {
                let id = FIRST_MESSAGE + u64::from(number);
                let publish = format!(r#"{{"id":{id},"publish":{{"channel":{quoted},"data":{number}}}}}"#);
                write_frame(&mut frame, Opcode::Text, publish.as_bytes());
            }
            Self::Pings => write_frame(&mut frame, Opcode::Ping, &number.to_be_bytes()),
        }
        frame
    }

    pub(super) fn hear(&self, event: Event<'_>) -> Said {
        match (self, event) {
            (Self::Channel { reader, .. }, Event::Text(text)) => match reader.read(text) {
                Received::Message { offset, data, .. } => {
                    data.parse().map_or(Said::Other, |number| Said::Arrived { number, offset })
                }
                Received::Gap { .. } => Said::Gap,
                Received::Reply(_) => hear_reply(text).unwrap_or(Said::Other),
                Received::Unnumbered { .. }
                | Received::Missed { .. }
                | Received::Elsewhere { .. }
                | Received::Goaway { .. }
                | Received::Other => Said::Other,
            },
            (Self::Pings, Event::Pong(payload)) => payload.try_into().map_or(Said::Other, |number| {
                Said::Arrived { number: u32::from_be_bytes(number), offset: 0 }
            }),
            _ => Said::Other,
        }
    }
}

#[derive(Deserialize)]
struct Object {
    reply: Reply,
}

#[derive(Deserialize)]
struct Reply {
    #[serde(default)]
    id: u64,
    ok: Option<Done>,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Done {
    epoch: Option<String>,
    offset: Option<u64>,
}

#[derive(Deserialize)]
struct Refusal {
    code: String,
}

fn hear_reply(text: &str) -> Option<Said> {
    let Object { reply: Reply { id, ok, error } } = serde_json::from_str(text).ok()?;
    let number = || u32::try_from(id.saturating_sub(FIRST_MESSAGE)).ok();
    if let Some(Refusal { code }) = error {
        return Some(Said::Refused { number: number()?, code });
    }
    let Done { epoch, offset } = ok?;
    if id == SUBSCRIPTION {
        return Some(Said::Subscribed(Position { epoch: epoch?, offset: offset? }));
    }
    Some(Said::Confirmed(number()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_understands_its_own_channel_and_replies() {
        let talk = Talk::new(Target::Encke, "mine");
        let subscribed = Said::Subscribed(Position { epoch: "e".to_owned(), offset: 4 });
        let refused = Said::Refused { number: 7, code: "rate_limited".to_owned() };
        for (text, said) in [
            (r#"{"reply":{"id":1,"ok":{"channel":"mine","epoch":"e","offset":4}}}"#, subscribed),
            (r#"{"reply":{"id":9,"ok":{"offset":5,"epoch":"e"}}}"#, Said::Confirmed(7)),
            (r#"{"reply":{"id":9,"error":{"code":"rate_limited","message":"x"}}}"#, refused),
            (
                r#"{"message":{"seq":5,"channel":"mine","offset":5,"data":7}}"#,
                Said::Arrived { number: 7, offset: 5 },
            ),
            (r#"{"message":{"seq":5,"channel":"other","offset":5,"data":7}}"#, Said::Other),
            (r#"{"gap":{"seq":5,"channel":"mine","epoch":"e"}}"#, Said::Gap),
            (r#"{"goaway":{"reason":"draining"}}"#, Said::Other),
        ] {
            assert_eq!(talk.hear(Event::Text(text)), said, "{text}");
        }
    }

    #[test]
    fn elsewhere_pongs_are_what_arrives() {
        let talk = Talk::new(Target::Plain, "mine");
        assert_eq!(talk.hear(Event::Pong(&[0, 0, 1, 0])), Said::Arrived { number: 256, offset: 0 });
        for other in [Event::Pong(b"x"), Event::Text("7")] {
            assert_eq!(talk.hear(other), Said::Other);
        }
        assert_eq!((talk.subscribe(None), talk.confirms()), (None, false));
    }
}
