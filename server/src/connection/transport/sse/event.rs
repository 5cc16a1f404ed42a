//! Events in the format of the HTML standard, section 9.2: unnamed, each with an object of the `json` dialect
//! on one line.

use std::io::Write;

use encke_base::entropy::Entropy;
use encke_broker::channel::LogMessage;
use encke_core::close::CloseCode;
use encke_core::dialect::json::Json;
use encke_core::dialect::{Dialect, ServerEvent, TextSink};

use super::positions::Positions;
use crate::client::retry_delay;
use crate::connection::transport::pattern_origin::pattern_origin;
use crate::session::{Channel, DeliveryWriter};

/// Approximate size of an event without its token and its text: two field names, a seq, a position, and line
/// breaks.
const FIELDS_BYTES: usize = 80;

/// Event id for clients that must not reconnect. A request with this id gets 204, after which an
/// `EventSource` does not try again.
pub(crate) const END_EVENT_ID: &str = "end";

/// Writes consecutive events.
pub(super) struct EventWriter<'a> {
    pub(super) out: &'a mut Vec<u8>,
    /// Resume token of the session. Together with a seq and the positions, it forms the id that an
    /// `EventSource` sends when it reconnects.
    pub(super) token: &'a str,
    pub(super) positions: &'a mut Positions,
}

impl EventWriter<'_> {
    /// Writes an event without an id.
    pub(super) fn write_plain(&mut self, event: &ServerEvent<'_>) {
        Json::default().notify(event, &mut PlainEvents(self.out));
    }

    /// Writes an event with an id. A client that has received this event has received everything up to `seq`.
    pub(super) fn write_numbered(&mut self, seq: u64, event: &ServerEvent<'_>) {
        self.write_id(seq);
        self.write_plain(event);
    }

    /// Writes an id without an event. A client remembers the id, but its code does not see it.
    pub(super) fn write_id_alone(&mut self, seq: u64) {
        self.write_id(seq);
        self.out.push(b'\n');
    }

    fn write_id(&mut self, seq: u64) {
        write!(self.out, "id: {}:{seq}", self.token).expect("writing to a Vec cannot fail");
        self.positions.write(self.out);
        self.out.push(b'\n');
    }
}

/// Writes a comment, which the client's code does not see, but which keeps the connection active. It is a
/// single line, because some clients treat a comment followed by an empty line as an event.
pub(super) fn write_heartbeat(out: &mut Vec<u8>) {
    out.extend_from_slice(b":\n");
}

/// Writes the last event of a stream: why the stream ends, and when to reconnect.
pub(crate) fn write_farewell(out: &mut Vec<u8>, code: CloseCode, entropy: &Entropy) {
    let retry = retry_delay(code, entropy);
    write!(out, "retry: {}\n\n", retry.as_millis()).expect("writing to a Vec cannot fail");
    if !code.allows_reconnect() {
        writeln!(out, "id: {END_EVENT_ID}").expect("writing to a Vec cannot fail");
    }
    Json::default().notify(&ServerEvent::Goaway { code, retry }, &mut PlainEvents(out));
}

/// Writes events without ids.
struct PlainEvents<'a>(&'a mut Vec<u8>);

impl TextSink for PlainEvents<'_> {
    fn text(&mut self, text: &str) {
        self.0.extend_from_slice(b"data: ");
        self.0.extend_from_slice(text.as_bytes());
        self.0.extend_from_slice(b"\n\n");
    }
}

impl DeliveryWriter for EventWriter<'_> {
    fn len(&self) -> usize {
        self.out.len()
    }

    fn message(&mut self, seq: u64, channel: &Channel, offset: u64, message: &LogMessage) {
        self.positions.advance(channel.name(), channel.epoch(), offset);
        if let Some(origin) = message.origin() {
            self.positions.advance_by_pattern(origin);
        }
        let by = pattern_origin(channel, offset, message);
        let message = message.encoded();
        self.out.reserve(FIELDS_BYTES + self.token.len() + message.len_with(seq, by));
        self.write_id(seq);
        self.out.extend_from_slice(b"data: ");
        message.write_with(seq, by, self.out);
        self.out.extend_from_slice(b"\n\n");
    }

    fn gap(&mut self, seq: u64, channel: &Channel, gap: &ServerEvent<'_>, last: Option<u64>) {
        match last {
            Some(last) => self.positions.advance(channel.name(), channel.epoch(), last),
            None => self.positions.advance_by_gap(channel.name()),
        }
        self.write_numbered(seq, gap);
    }

    fn notice(&mut self, _: u64, notice: &ServerEvent<'_>) {
        self.write_plain(notice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_lines() {
        let mut out = Vec::new();
        let mut positions = Positions::default();
        let mut events = EventWriter { out: &mut out, token: "s_a.b", positions: &mut positions };
        events.write_numbered(7, &ServerEvent::Unsubscribed { channel: "news", reason: "forbidden" });
        let mut events = EventWriter { out: &mut out, token: "s_a.b", positions: &mut positions };
        events.write_id_alone(8);
        write_heartbeat(&mut out);
        let entropy = Entropy::system();
        write_farewell(&mut out, CloseCode::Kicked, &entropy);
        write_farewell(&mut out, CloseCode::Lifetime, &entropy);
        let text = concat!(
            "id: s_a.b:7;.\ndata: {\"unsubscribed\":{\"channel\":\"news\",\"reason\":\"forbidden\"}}\n\n",
            "id: s_a.b:8;.\n\n",
            ":\n",
            "retry: 2147483647\n\nid: end\ndata: {\"goaway\":{\"reason\":\"kicked\",\"retry_ms\":2147483647}}\n\n",
            "retry: 1000\n\ndata: {\"goaway\":{\"reason\":\"lifetime\",\"retry_ms\":1000}}\n\n",
        );
        assert_eq!(String::from_utf8(out).as_deref(), Ok(text));
    }
}
