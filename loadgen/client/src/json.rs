//! Encke's `json` dialect: what a client needs to know of each object, and its commands.

use encke_core::dialect::json::ServerMessage;
use serde_json::Value;

/// Parses the digits at the beginning of a string. Returns the number and the rest of the string.
pub fn take_number(text: &str) -> Option<(u64, &str)> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// Returns the `seq` of a message or gap. `None` for replies and unknown objects.
pub(crate) fn seq_of(text: &str) -> Option<u64> {
    // This code runs for every delivery, so it reads messages in the usual form without a JSON parser.
    if let Some((seq, _)) = text.strip_prefix(r#"{"message":{"seq":"#).and_then(take_number) {
        return Some(seq);
    }
    if is_reply(text) {
        return None;
    }
    match serde_json::from_str(text).ok()? {
        ServerMessage::Message(message) => Some(message.seq),
        ServerMessage::Gap(gap) => Some(gap.seq),
        _ => None,
    }
}

/// Returns whether an object is a reply. Every object of the dialect has a single field, whose name is the
/// object's type.
pub(crate) fn is_reply(text: &str) -> bool {
    let field = text.trim_start().strip_prefix('{').map(str::trim_start);
    field.is_some_and(|field| field.starts_with(r#""reply""#))
}

pub(crate) fn subscribe(channel: &str) -> String {
    format!(r#"{{"id":1,"subscribe":{{"channel":{}}}}}"#, Value::from(channel))
}

/// Returns the command that publishes `data`, which is JSON.
pub(crate) fn publish(id: u64, channel: &str, data: &str) -> String {
    format!(r#"{{"id":{id},"publish":{{"channel":{},"data":{data}}}}}"#, Value::from(channel))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_objects_are_distinguished() {
        for (text, seq, reply) in [
            (r#"{"message":{"seq":57,"channel":"news","offset":1,"data":{"reply":1}}}"#, Some(57), false),
            (r#"{ "message":{"channel":"news","offset":1,"data":1,"seq":57}}"#, Some(57), false),
            (r#"{"gap":{"seq":58,"channel":"news","epoch":"e","from":10,"to":35}}"#, Some(58), false),
            (" { \"reply\" : {\"id\":1,\"ok\":{\"message\":1}}}", None, true),
            (r#"{"replying":{"seq":1}}"#, None, false),
            ("", None, false),
        ] {
            assert_eq!((seq_of(text), is_reply(text)), (seq, reply), "{text}");
        }
    }
}
