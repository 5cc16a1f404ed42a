//! JSON arrays of Bayeux messages, as sent in HTTP responses and WebSocket text messages.

use encke_broker::channel::LogMessage;
use encke_core::dialect::bayeux::{event_len, write_event};

use crate::session::Channel;

/// Appends a message from the log of `channel`, which may be a pattern.
pub(super) fn append_event(channel: &Channel, message: &LogMessage, events: &mut Vec<u8>) {
    let name = message.origin().map_or(channel.name(), |origin| &origin.channel).client_name();
    let (data, stamp) = (message.encoded().data(), message.encoded().stamp());
    events.reserve(event_len(name, &data, stamp) + 1);
    if !events.is_empty() {
        events.push(b',');
    }
    write_event(name, &data, stamp, events);
}

/// Length in bytes of the array that [`write_array`] writes for `parts`.
pub(super) fn array_len(parts: &[&[u8]]) -> usize {
    // A bracket or a comma precedes each part.
    present(parts).map(|part| part.len() + 1).sum::<usize>().max(1) + 1
}

/// Appends an array of `parts`. Each part is empty or a list of members separated by commas.
pub(super) fn write_array(parts: &[&[u8]], out: &mut Vec<u8>) {
    let mut before = b'[';
    for part in present(parts) {
        out.push(before);
        out.extend_from_slice(part);
        before = b',';
    }
    if before == b'[' {
        out.push(before);
    }
    out.push(b']');
}

fn present<'a>(parts: &'a [&'a [u8]]) -> impl Iterator<Item = &'a [u8]> {
    parts.iter().copied().filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn array_len_matches_the_array() {
        for (parts, json) in [
            (&[][..], "[]"),
            (&["", ""], "[]"),
            (&["1"], "[1]"),
            (&["1,2", "", "3"], "[1,2,3]"),
            (&["", "1", "2"], "[1,2]"),
        ] {
            let parts: Vec<_> = parts.iter().map(|part| part.as_bytes()).collect();
            let mut array = Vec::new();
            write_array(&parts, &mut array);
            assert_eq!(String::from_utf8(array).as_deref(), Ok(json));
            assert_eq!(array_len(&parts), json.len());
        }
    }
}
