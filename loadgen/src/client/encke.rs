//! Encke's `json` dialect: the hello with the parameters of a session, and the commands.

use std::time::Duration;

use encke_core::dialect::json::ServerMessage;
use serde_json::Value;

use super::{ClientConnection, ClientFailure, EarlyText, Greeting, Ticket};

/// Returns the query parameters that resume a session.
pub(super) fn query(resume: Option<&Ticket>) -> String {
    resume.map_or_else(String::new, |ticket| format!("resume={}&seq={}", ticket.token, ticket.seq))
}

pub(super) async fn greeting(connection: &mut ClientConnection) -> Result<Greeting, ClientFailure> {
    connection
        .greeting(|text| match serde_json::from_str(text) {
            // Skip it: the Close frame that follows gives the reason.
            Ok(ServerMessage::Goaway(_)) => EarlyText::Other,
            _ => EarlyText::Greeting(read_hello(text)),
        })
        .await?
}

pub(super) fn read_hello(text: &str) -> Result<Greeting, ClientFailure> {
    match serde_json::from_str(text) {
        Ok(ServerMessage::Hello(hello)) => Ok(Greeting {
            ticket: Ticket { token: hello.resume.into(), seq: hello.seq, last_id: None },
            recovered: hello.recovered,
            ping_interval: Duration::from_millis(hello.ping_interval_ms),
            pong_timeout: Duration::from_millis(hello.pong_timeout_ms),
            reconnect_window: Duration::from_millis(hello.reconnect_window_ms),
            // The hello does not announce how long polls are held.
            poll_hold: Duration::ZERO,
        }),
        Ok(_) | Err(_) => Err(ClientFailure::NoHello),
    }
}

pub(super) fn subscribe(channel: &str) -> String {
    format!(r#"{{"id":1,"subscribe":{{"channel":{}}}}}"#, Value::from(channel))
}

/// Returns the command that publishes `data`, which is JSON.
pub(super) fn publish(id: u64, channel: &str, data: &str) -> String {
    format!(r#"{{"id":{id},"publish":{{"channel":{},"data":{data}}}}}"#, Value::from(channel))
}

/// Like [`publish`], but with a key, so that the server publishes a repeated command only once.
pub(super) fn publish_once(id: u64, channel: &str, data: &str, key: &str) -> String {
    let (channel, key) = (Value::from(channel), Value::from(key));
    format!(r#"{{"id":{id},"publish":{{"channel":{channel},"data":{data},"key":{key}}}}}"#)
}

/// Returns whether an object is a reply. Every object of the dialect has a single field, whose name is the
/// object's type.
pub(super) fn is_reply(text: &str) -> bool {
    let field = text.trim_start().strip_prefix('{').map(str::trim_start);
    field.is_some_and(|field| field.starts_with(r#""reply""#))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_distinguished_from_messages() {
        for (text, expected) in [
            (r#"{"message":{"seq":1,"channel":"news","offset":1,"data":{"reply":1}}}"#, false),
            (r#"{"reply":{"id":1,"ok":{"message":1}}}"#, true),
            (" { \"reply\" : {}}", true),
            (r#"{"replying":1}"#, false),
            ("", false),
        ] {
            assert_eq!(is_reply(text), expected, "{text}");
        }
    }

    #[test]
    fn unknown_fields_of_a_hello_are_ignored() {
        let text = r#"{"hello":{"version":1,"session":"s_1","resume":"s_1.x","recovered":true,"seq":7,"new":[],
                       "ping_interval_ms":25000,"pong_timeout_ms":10000,"reconnect_window_ms":120000}}"#;
        let greeting = read_hello(text).expect("the text is a hello");
        assert_eq!((&*greeting.ticket.token, greeting.ticket.seq), ("s_1.x", 7));
        assert!(greeting.recovered);
        assert_eq!(greeting.ping_interval, Duration::from_secs(25));
        assert_eq!(greeting.pong_timeout, Duration::from_secs(10));
        assert!(read_hello(r#"{"goaway":{"reason":"draining","retry_ms":1}}"#).is_err());
    }
}
