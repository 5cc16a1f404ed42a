//! Packets of Engine.IO, revision 4, and of Socket.IO, revision 5. Engine.IO packets carry the Socket.IO
//! packets.

use serde_json::value::RawValue;

/// Contents of a text frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Packet<'a> {
    /// Engine.IO: the first packet, with this JSON.
    Open(&'a str),
    /// Engine.IO or Socket.IO: the server closes the connection.
    Close,
    Ping,
    /// Socket.IO: the connection is established, with this JSON.
    Connected(&'a str),
    /// Socket.IO: the connection is refused, for the reason in this JSON.
    Refused(&'a str),
    /// An event, as a JSON array of its name and its data. Attachments, if any, are sent in separate frames.
    Event(&'a str),
    /// An event that the server wants acknowledged. It has no offset.
    EventWithAck(&'a str),
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
            "2" => Self::read_event(rest),
            "4" => Self::Refused(rest),
            // A binary event begins with its number of attachments.
            "5" => after_digits(rest).strip_prefix('-').map_or(Self::Other, Self::read_event),
            _ => Self::Other,
        }
    }

    /// Reads an event. An id precedes the array if the server wants the event acknowledged.
    fn read_event(text: &'a str) -> Self {
        let event = after_digits(text);
        if event.len() < text.len() { Self::EventWithAck(event) } else { Self::Event(event) }
    }
}

fn after_digits(text: &str) -> &str {
    text.trim_start_matches(|char: char| char.is_ascii_digit())
}

/// Returns the offset of an event on a connection that can be recovered: the last argument, if it is a
/// string.
pub(super) fn offset_of(event: &str) -> Option<String> {
    let arguments: Vec<&RawValue> = serde_json::from_str(event).ok()?;
    match arguments.as_slice() {
        [_, .., last] => serde_json::from_str(last.get()).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_parsed_as_specified() {
        for (text, expected) in [
            (r#"0{"sid":"a","pingTimeout":20000}"#, Packet::Open(r#"{"sid":"a","pingTimeout":20000}"#)),
            ("1", Packet::Close),
            ("2", Packet::Ping),
            ("3", Packet::Other),
            (r#"40{"sid":"b"}"#, Packet::Connected(r#"{"sid":"b"}"#)),
            ("41", Packet::Close),
            (r#"42["news",{"a":1}]"#, Packet::Event(r#"["news",{"a":1}]"#)),
            (r#"4212["news"]"#, Packet::EventWithAck(r#"["news"]"#)),
            (r#"451-["news",{"_placeholder":true}]"#, Packet::Event(r#"["news",{"_placeholder":true}]"#)),
            (r#"4510-12["news"]"#, Packet::EventWithAck(r#"["news"]"#)),
            ("451", Packet::Other),
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
