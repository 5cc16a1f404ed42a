//! Encodes the messages of the healthy session, and decodes the server's answers.

use encke_client::transport::websocket::{Opcode, write_frame};
use encke_client::{ChannelReader, ClientEvent, Received, Target};
use serde_json::Value;

use super::HealthyPosition;

/// Id of the subscribe command. The publish command of message n has the id n + 2.
const SUBSCRIPTION: u64 = 1;
const FIRST_MESSAGE: u64 = 2;

#[derive(Debug)]
pub(crate) enum HealthyProtocol {
    /// Publishes messages, and receives them as a subscriber of the same channel.
    Channel { quoted: String, reader: ChannelReader },
    /// Sends pings.
    Pings,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HealthyEvent {
    Subscribed(HealthyPosition),
    Arrived { number: u32, offset: u64 },
    Confirmed(u32),
    Refused { number: u32, code: String },
    Gap,
}

impl HealthyProtocol {
    pub(crate) fn new(target: Target, channel: &str) -> Self {
        if target != Target::Encke {
            return Self::Pings;
        }
        Self::Channel {
            quoted: Value::from(channel).to_string(),
            reader: ChannelReader::new(target, channel),
        }
    }

    pub(crate) fn confirms(&self) -> bool {
        matches!(self, Self::Channel { .. })
    }

    pub(crate) fn subscribe(&self, since: Option<&HealthyPosition>) -> Option<String> {
        let Self::Channel { quoted, .. } = self else { return None };
        let since = since.map_or_else(String::new, |HealthyPosition { epoch, offset }| {
            format!(r#","since":{{"epoch":{},"offset":{offset}}}"#, Value::from(epoch.as_str()))
        });
        Some(format!(r#"{{"id":{SUBSCRIPTION},"subscribe":{{"channel":{quoted}{since}}}}}"#))
    }

    pub(crate) fn encode_message(&self, number: u32) -> Vec<u8> {
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

    /// Returns `None` for events that do not matter to the session.
    pub(crate) fn decode(&self, event: ClientEvent<'_>) -> Option<HealthyEvent> {
        match (self, event) {
            (Self::Channel { reader, .. }, ClientEvent::Text(text)) => match reader.read(text) {
                Received::Message { offset, data, .. } => {
                    Some(HealthyEvent::Arrived { number: data.parse().ok()?, offset })
                }
                Received::Gap { .. } => Some(HealthyEvent::Gap),
                Received::Reply(_) => decode_reply(text),
                _ => None,
            },
            (Self::Pings, ClientEvent::Pong(payload)) => {
                let number = u32::from_be_bytes(payload.try_into().ok()?);
                Some(HealthyEvent::Arrived { number, offset: 0 })
            }
            _ => None,
        }
    }
}

fn decode_reply(text: &str) -> Option<HealthyEvent> {
    let object: Value = serde_json::from_str(text).ok()?;
    let Value::Object(reply) = object.get("reply")? else { return None };
    let id = reply.get("id")?.as_u64()?;
    let number = || u32::try_from(id.saturating_sub(FIRST_MESSAGE)).ok();
    if let Some(code) = reply.get("error").and_then(|error| error.get("code")?.as_str()) {
        return Some(HealthyEvent::Refused { number: number()?, code: code.to_owned() });
    }
    let ok = reply.get("ok")?;
    if id == SUBSCRIPTION {
        let (epoch, offset) = (ok.get("epoch")?.as_str()?.to_owned(), ok.get("offset")?.as_u64()?);
        return Some(HealthyEvent::Subscribed(HealthyPosition { epoch, offset }));
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
            (r#"{"reply":{"id":1,"ok":{"channel":"mine","epoch":"e","offset":4}}}"#, Some(subscribed)),
            (r#"{"reply":{"id":9,"ok":{"offset":5,"epoch":"e"}}}"#, Some(HealthyEvent::Confirmed(7))),
            (r#"{"reply":{"id":9,"error":{"code":"rate_limited","message":"x"}}}"#, Some(refused)),
            (
                r#"{"message":{"seq":5,"channel":"mine","offset":5,"data":7}}"#,
                Some(HealthyEvent::Arrived { number: 7, offset: 5 }),
            ),
            (r#"{"message":{"seq":5,"channel":"other","offset":5,"data":7}}"#, None),
            (r#"{"gap":{"seq":5,"channel":"mine","epoch":"e"}}"#, Some(HealthyEvent::Gap)),
            (r#"{"goaway":{"reason":"draining"}}"#, None),
        ] {
            assert_eq!(protocol.decode(ClientEvent::Text(text)), expected, "{text}");
        }
    }
}
