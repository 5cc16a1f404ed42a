//! Socket.IO's protocol, revision 5, in the main namespace, over Engine.IO's, revision 4.

use std::ops::ControlFlow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Connection, Greeting, Ticket};
use crate::failure::Failure;
use crate::websocket::Incoming;

/// Engine.IO's answer to a ping.
pub(super) const PONG: &str = "3";

/// What a text frame has in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Packet<'a> {
    /// Engine.IO: the first packet, with this JSON.
    Open(&'a str),
    /// Engine.IO or Socket.IO: the server ends it.
    Close,
    Ping,
    /// Socket.IO: we are connected, with this JSON.
    Connected(&'a str),
    /// Or not, for the reason in this JSON.
    Refused(&'a str),
    /// An event, as a JSON array of its name and its data.
    Event(&'a str),
    Other,
}

impl<'a> Packet<'a> {
    pub(super) fn read(text: &'a str) -> Self {
        let Some((kind, rest)) = text.split_at_checked(1) else { return Self::Other };
        match kind {
            "0" => Self::Open(rest),
            "1" => Self::Close,
            "2" => Self::Ping,
            "4" => Self::read_message(rest),
            _ => Self::Other,
        }
    }

    fn read_message(text: &'a str) -> Self {
        let Some((kind, rest)) = text.split_at_checked(1) else { return Self::Other };
        match kind {
            "0" => Self::Connected(rest),
            "1" => Self::Close,
            // An id may stand before the array, if the server wants the event acknowledged.
            "2" => Self::Event(rest.trim_start_matches(|char: char| char.is_ascii_digit())),
            "4" => Self::Refused(rest),
            _ => Self::Other,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Open {
    ping_timeout: u64,
}

#[derive(Deserialize)]
struct Connected {
    sid: String,
    /// Given by servers that recover connections.
    pid: Option<String>,
}

/// The offset of an event for a connection that can be recovered: its last argument, a text.
pub(super) fn offset_of(event: &str) -> Option<String> {
    let arguments: Vec<&RawValue> = serde_json::from_str(event).ok()?;
    match arguments.as_slice() {
        [_, .., last] => serde_json::from_str(last.get()).ok(),
        _ => None,
    }
}

/// Connects to the main namespace, and comes back to an earlier connection if there is a ticket.
pub(super) async fn connect(
    connection: &mut Connection,
    resume: Option<&Ticket>,
) -> Result<Greeting, Failure> {
    let open = first(connection, |packet| match packet {
        Packet::Open(json) => serde_json::from_str::<Open>(json).ok(),
        _ => None,
    });
    let pong_timeout = Duration::from_millis(open.await?.ping_timeout);
    connection.send(&format!("40{}", credentials(resume))).await;
    let connected = first(connection, |packet| match packet {
        Packet::Connected(json) => serde_json::from_str::<Connected>(json).ok(),
        _ => None,
    });
    let Connected { sid, pid } = connected.await?;
    // A connection that was recovered has the id that it had.
    let recovered = resume.is_some_and(|ticket| ticket.token.split_once(' ').is_some_and(|it| it.1 == sid));
    let last_id = resume.filter(|_| recovered).and_then(|ticket| ticket.last_id.clone());
    let token = format!("{} {sid}", pid.unwrap_or_default()).into();
    let ticket = Ticket { token, seq: 0, last_id };
    Ok(Greeting { ticket, recovered, pong_timeout, ..Greeting::default() })
}

/// What a CONNECT packet has in it. Without an offset there is nothing that can be recovered.
fn credentials(resume: Option<&Ticket>) -> String {
    let pid = resume.and_then(|ticket| ticket.token.split_once(' ')).map(|(pid, _)| pid);
    let offset = resume.and_then(|ticket| ticket.last_id.as_deref());
    match (pid, offset) {
        (Some(pid), Some(offset)) => {
            format!(r#"{{"pid":{},"offset":{}}}"#, Value::from(pid), Value::from(offset))
        }
        _ => String::new(),
    }
}

/// What is to come first, save for pings.
async fn first<T>(
    connection: &mut Connection,
    mut read: impl FnMut(Packet<'_>) -> Option<T>,
) -> Result<T, Failure> {
    let found = connection.each_incoming(|incoming| {
        let Incoming::Text(text) = incoming else { return ControlFlow::Continue(()) };
        match Packet::read(&text) {
            Packet::Ping | Packet::Other => ControlFlow::Continue(()),
            packet => ControlFlow::Break(read(packet).ok_or(Failure::NoHello)),
        }
    });
    found.await.unwrap_or_else(|end| Err(Failure::ClosedBeforeHello(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_those_of_the_protocols() {
        for (text, expected) in [
            (r#"0{"sid":"a","pingTimeout":20000}"#, Packet::Open(r#"{"sid":"a","pingTimeout":20000}"#)),
            ("1", Packet::Close),
            ("2", Packet::Ping),
            ("3", Packet::Other),
            (r#"40{"sid":"b"}"#, Packet::Connected(r#"{"sid":"b"}"#)),
            ("41", Packet::Close),
            (r#"42["news",{"a":1}]"#, Packet::Event(r#"["news",{"a":1}]"#)),
            (r#"4212["news"]"#, Packet::Event(r#"["news"]"#)),
            (r#"44{"message":"no"}"#, Packet::Refused(r#"{"message":"no"}"#)),
            ("43[]", Packet::Other),
            ("6", Packet::Other),
            ("", Packet::Other),
            ("4", Packet::Other),
            ("é", Packet::Other),
        ] {
            assert_eq!(Packet::read(text), expected, "{text}");
        }
    }

    #[test]
    fn an_offset_is_the_last_argument_if_it_is_a_text() {
        assert_eq!(offset_of(r#"["news",{"a":1},"o1"]"#).as_deref(), Some("o1"));
        for none in [r#"["news",1]"#, r#"["news"]"#, "[]", "x"] {
            assert_eq!(offset_of(none), None, "{none}");
        }
    }
}
