//! Responses in the `json` dialect: arrays of the objects that a WebSocket would receive.

use encke_core::close::CloseCode;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{ReceivedItem, ReceivedItems};
use crate::client::take_number;
use crate::client::ticket::seq_of;
use crate::transport::websocket::{ConnectionEnd, ProtocolFault};

/// Status of the response when the session no longer exists.
pub(super) const GONE: u16 = 410;

/// Splits a response into its objects.
pub(super) fn objects(body: &[u8]) -> Result<Vec<&str>, ConnectionEnd> {
    let objects: Vec<&RawValue> =
        serde_json::from_slice(body).map_err(|_| ConnectionEnd::Fault(ProtocolFault::Answer))?;
    Ok(objects.into_iter().map(RawValue::get).collect())
}

/// Queues the objects of a response, and sets `seq` to the last seq among them. A goaway ends the session,
/// and so does the hello of another session.
pub(super) fn queue_objects(
    objects: Vec<&str>,
    seq: &mut u64,
    received: &mut ReceivedItems,
) -> Result<(), ConnectionEnd> {
    for text in objects {
        match kind(text) {
            ObjectKind::Numbered(number) => *seq = number,
            ObjectKind::Goaway(end) => return Err(end),
            ObjectKind::Hello => return Err(ConnectionEnd::Status(GONE)),
            ObjectKind::Other => {}
        }
        received.push_back(ReceivedItem::Text(text.into()));
    }
    Ok(())
}

/// Returns how the object ends the session, if it is a goaway.
pub(super) fn goaway_end(text: &str) -> Option<ConnectionEnd> {
    if let ObjectKind::Goaway(end) = kind(text) { Some(end) } else { None }
}

enum ObjectKind {
    /// A message or a gap.
    Numbered(u64),
    Goaway(ConnectionEnd),
    Hello,
    Other,
}

fn kind(text: &str) -> ObjectKind {
    // This code runs for every delivery, so it reads messages in the usual form without a JSON parser.
    let number = text.strip_prefix(r#"{"message":{"seq":"#).and_then(take_number);
    if let Some(seq) = number.map(|(seq, _)| seq).or_else(|| seq_of(text)) {
        return ObjectKind::Numbered(seq);
    }
    match serde_json::from_str(text) {
        Ok(SpecialObject::Goaway { reason }) => {
            let code = CloseCode::ALL.into_iter().find(|code| code.reason() == reason);
            ObjectKind::Goaway(ConnectionEnd::Closed(code.map(CloseCode::code)))
        }
        Ok(SpecialObject::Hello {}) => ObjectKind::Hello,
        Err(_) => ObjectKind::Other,
    }
}

/// Objects that may appear instead of messages.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum SpecialObject {
    Goaway { reason: String },
    Hello {},
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> (Result<(), ConnectionEnd>, u64, Vec<String>) {
        let (mut seq, mut received) = (7, ReceivedItems::new());
        let result =
            objects(body.as_bytes()).and_then(|objects| queue_objects(objects, &mut seq, &mut received));
        let texts = received.iter().map(|item| match item {
            ReceivedItem::Text(text) => text.to_string(),
            ReceivedItem::Empty(_) | ReceivedItem::Id(_) => panic!("a response contains only objects"),
        });
        (result, seq, texts.collect())
    }

    #[test]
    fn the_last_seq_of_a_response_counts() {
        let message = r#"{"message":{"seq":8,"channel":"news","offset":1,"data":[1,"]"]}}"#;
        let gap = r#"{"gap":{"seq":9,"channel":"news","epoch":"e"}}"#;
        let reply = r#"{"reply":{"id":1,"ok":{}}}"#;
        let (result, seq, texts) = read(&format!("[{message},{gap},\n{reply}]"));
        assert_eq!((result, seq), (Ok(()), 9));
        assert_eq!(texts, [message, gap, reply]);
        assert_eq!(read("[]"), (Ok(()), 7, vec![]));
    }

    #[test]
    fn messages_before_a_goaway_are_received() {
        let message = r#"{"message":{"seq":8,"channel":"news","offset":1,"data":1}}"#;
        let goaway =
            |reason: &str| format!(r#"[{message},{{"goaway":{{"reason":"{reason}","retry_ms":1}}}}]"#);
        assert_eq!(
            read(&goaway("idle")),
            (Err(ConnectionEnd::Closed(Some(4004))), 8, vec![message.to_owned()])
        );
        assert_eq!(read(&goaway("of_next_year")).0, Err(ConnectionEnd::Closed(None)));
        let other = r#"[{"hello":{"version":1,"session":"s","resume":"s.x","recovered":false,"seq":0}}]"#;
        assert_eq!(read(other).0, Err(ConnectionEnd::Status(410)), "a hello belongs to another session");
        assert_eq!(read("{}").0, Err(ConnectionEnd::Fault(ProtocolFault::Answer)));
        assert_eq!(read("<html>").0, Err(ConnectionEnd::Fault(ProtocolFault::Answer)));
    }
}
