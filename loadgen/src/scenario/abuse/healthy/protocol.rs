//! Encodes the messages of the healthy session, and decodes the server's answers.

use serde::Deserialize;
use serde_json::Value;

use super::HealthyPosition;
use crate::client::{ChannelReader, ClientEvent, Received};
use crate::target::Target;
use crate::transport::websocket::{Opcode, write_frame};

/// Id of the subscribe command. The publish command of message n has the id n + 2.
const SUBSCRIPTION: u64 = 1;
const FIRST_MESSAGE: u64 = 2;

#[derive(Debug)]
pub(super) enum HealthyProtocol {
    /// Publishes messages, and receives them as a subscriber of the same channel.
    Channel { quoted: String, reader: ChannelReader },
    /// Sends pings.
    Pings,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum HealthyEvent {
    Subscribed(HealthyPosition),
    Arrived { number: u32, offset: u64 },
    Confirmed(u32),
    Refused { number: u32, code: String },
    Gap,
    Other,
}

impl HealthyProtocol {
    pub(super) fn new(target: Target, channel: &str) -> Self {
        match target {
            Target::Encke => {
                let quoted = Value::from(channel).to_string();
                Self::Channel { quoted, reader: ChannelReader::new(channel) }
            }
            Target::Plain | Target::Sse | Target::Socketio | Target::Poll | Target::Bayeux => Self::Pings,
        }
    }

    /// Returns whether the server confirms messages.
    pub(super) fn confirms(&self) -> bool {
        matches!(self, Self::Channel { .. })
    }

    pub(super) fn subscribe(&self, since: Option<&HealthyPosition>) -> Option<String> {
        let Self::Channel { quoted, .. } = self else { return None };
        let since = since.map_or_else(String::new, |HealthyPosition { epoch, offset }| {
            format!(r#","since":{{"epoch":{},"offset":{offset}}}"#, Value::from(epoch.as_str()))
        });
        Some(format!(r#"{{"id":{SUBSCRIPTION},"subscribe":{{"channel":{quoted}{since}}}}}"#))
    }

    /// Encodes the message with this number as a frame.
    pub(super) fn encode_message(&self, number: u32) -> Vec<u8> {
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

    pub(super) fn decode(&self, event: ClientEvent<'_>) -> HealthyEvent {
        match (self, event) {
            (Self::Channel { reader, .. }, ClientEvent::Text(text)) => match reader.read(text) {
                Received::Message { offset, data, .. } => data
                    .parse()
                    .map_or(HealthyEvent::Other, |number| HealthyEvent::Arrived { number, offset }),
                Received::Gap { .. } => HealthyEvent::Gap,
                Received::Reply(_) => decode_reply(text).unwrap_or(HealthyEvent::Other),
                Received::UnnumberedMessage { .. }
                | Received::UnnumberedGap { .. }
                | Received::OtherChannel { .. }
                | Received::Goaway { .. }
                | Received::Other => HealthyEvent::Other,
            },
            (Self::Pings, ClientEvent::Pong(payload)) => {
                payload.try_into().map_or(HealthyEvent::Other, |number| HealthyEvent::Arrived {
                    number: u32::from_be_bytes(number),
                    offset: 0,
                })
            }
            _ => HealthyEvent::Other,
        }
    }
}

#[derive(Deserialize)]
struct ReplyObject {
    reply: ReplyBody,
}

#[derive(Deserialize)]
struct ReplyBody {
    #[serde(default)]
    id: u64,
    ok: Option<OkFields>,
    error: Option<ErrorFields>,
}

#[derive(Deserialize)]
struct OkFields {
    epoch: Option<String>,
    offset: Option<u64>,
}

#[derive(Deserialize)]
struct ErrorFields {
    code: String,
}

fn decode_reply(text: &str) -> Option<HealthyEvent> {
    let ReplyObject { reply: ReplyBody { id, ok, error } } = serde_json::from_str(text).ok()?;
    let number = || u32::try_from(id.saturating_sub(FIRST_MESSAGE)).ok();
    if let Some(ErrorFields { code }) = error {
        return Some(HealthyEvent::Refused { number: number()?, code });
    }
    let OkFields { epoch, offset } = ok?;
    if id == SUBSCRIPTION {
        return Some(HealthyEvent::Subscribed(HealthyPosition { epoch: epoch?, offset: offset? }));
    }
    Some(HealthyEvent::Confirmed(number()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_replies_are_decoded() {
        let protocol = HealthyProtocol::new(Target::Encke, "mine");
        let subscribed = HealthyEvent::Subscribed(HealthyPosition { epoch: "e".to_owned(), offset: 4 });
        let refused = HealthyEvent::Refused { number: 7, code: "rate_limited".to_owned() };
        for (text, expected) in [
            (r#"{"reply":{"id":1,"ok":{"channel":"mine","epoch":"e","offset":4}}}"#, subscribed),
            (r#"{"reply":{"id":9,"ok":{"offset":5,"epoch":"e"}}}"#, HealthyEvent::Confirmed(7)),
            (r#"{"reply":{"id":9,"error":{"code":"rate_limited","message":"x"}}}"#, refused),
            (
                r#"{"message":{"seq":5,"channel":"mine","offset":5,"data":7}}"#,
                HealthyEvent::Arrived { number: 7, offset: 5 },
            ),
            (r#"{"message":{"seq":5,"channel":"other","offset":5,"data":7}}"#, HealthyEvent::Other),
            (r#"{"gap":{"seq":5,"channel":"mine","epoch":"e"}}"#, HealthyEvent::Gap),
            (r#"{"goaway":{"reason":"draining"}}"#, HealthyEvent::Other),
        ] {
            assert_eq!(protocol.decode(ClientEvent::Text(text)), expected, "{text}");
        }
    }

    #[test]
    fn without_channels_pongs_are_decoded() {
        let protocol = HealthyProtocol::new(Target::Plain, "mine");
        assert_eq!(
            protocol.decode(ClientEvent::Pong(&[0, 0, 1, 0])),
            HealthyEvent::Arrived { number: 256, offset: 0 }
        );
        for other in [ClientEvent::Pong(b"x"), ClientEvent::Text("7")] {
            assert_eq!(protocol.decode(other), HealthyEvent::Other);
        }
        assert_eq!((protocol.subscribe(None), protocol.confirms()), (None, false));
    }
}
