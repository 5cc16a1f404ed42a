//! Events of the HTML standard, section 9.2: unnamed, each an object of the dialect in one line.

use std::io::Write;

use encke_core::close::CloseCode;
use encke_core::dialect::json::Json;
use encke_core::dialect::{Dialect, Event, Texts};
use encke_core::encodings::Cached;

use super::positions::Positions;
use crate::channel::LogMessage;
use crate::client::{goaway, retry_ms};
use crate::entropy::Entropy;
use crate::session::{Channel, Outgoing, Transport};
use crate::transport::by_pattern::by_pattern;

/// What an event has besides its token and its text: the names of two fields, a seq, a position, line breaks.
const FIELDS_BYTES: usize = 80;

/// The id of those who are not to come back. A request with it gets 204, after which an `EventSource` does not try again.
pub(crate) const END: &str = "end";

/// Events, one after the other.
pub(super) struct Events<'a> {
    pub(super) out: &'a mut Vec<u8>,
    /// The session's resume token: with a seq and the positions it is the id that an `EventSource` comes back with.
    pub(super) token: &'a str,
    pub(super) positions: &'a mut Positions,
}

impl Events<'_> {
    /// An event without an id.
    pub(super) fn plain(&mut self, event: &Event<'_>) {
        Json::default().notify(event, self);
    }

    /// An event after which the client has everything up to `seq`.
    pub(super) fn numbered(&mut self, seq: u64, event: &Event<'_>) {
        self.id(seq);
        self.plain(event);
    }

    fn id(&mut self, seq: u64) {
        write!(self.out, "id: {}:{seq}", self.token).expect("memory takes everything");
        self.positions.write(self.out);
        self.out.push(b'\n');
    }
}

/// A comment: the client's code does not see it, but the network in between does. One line: after an empty one, some clients
/// take it for an event.
pub(super) fn heartbeat(out: &mut Vec<u8>) {
    out.extend_from_slice(b":\n");
}

/// The last event of a stream: why it ends, and when to come back.
pub(crate) fn farewell(out: &mut Vec<u8>, code: CloseCode, entropy: &Entropy) {
    let retry = retry_ms(code, entropy);
    write!(out, "retry: {retry}\n\n").expect("memory takes everything");
    if !code.invites_back() {
        writeln!(out, "id: {END}").expect("memory takes everything");
    }
    Json::default().notify(&goaway(code, retry), &mut Bare(out));
}

/// Events without ids.
pub(super) struct Bare<'a>(pub(super) &'a mut Vec<u8>);

impl Texts for Bare<'_> {
    fn text(&mut self, text: &str) {
        self.0.extend_from_slice(b"data: ");
        self.0.extend_from_slice(text.as_bytes());
        self.0.extend_from_slice(b"\n\n");
    }
}

impl Texts for Events<'_> {
    fn text(&mut self, text: &str) {
        Bare(self.out).text(text);
    }
}

impl Outgoing for Events<'_> {
    const TRANSPORT: Transport = Transport::Events;

    fn len(&self) -> usize {
        self.out.len()
    }

    fn message(&mut self, seq: u64, channel: &Channel, offset: u64, message: &LogMessage) {
        self.positions.advance(channel.name().as_str(), channel.epoch(), offset);
        if let Some(origin) = message.origin() {
            self.positions.advance_by_pattern(origin);
        }
        let by = by_pattern::<Json>(channel, offset, message);
        let message = Json::of(message.encodings());
        self.out.reserve(FIELDS_BYTES + self.token.len() + message.len_with(seq, by));
        self.id(seq);
        self.out.extend_from_slice(b"data: ");
        message.write_with(seq, by, self.out);
        self.out.extend_from_slice(b"\n\n");
    }

    fn gap(&mut self, seq: u64, channel: &Channel, gap: &Event<'_>, last: Option<u64>) {
        if let Some(last) = last {
            self.positions.advance(channel.name().as_str(), channel.epoch(), last);
        }
        self.numbered(seq, gap);
    }

    fn notice(&mut self, _: u64, notice: &Event<'_>) {
        self.plain(notice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_lines() {
        let mut out = Vec::new();
        let mut positions = Positions::default();
        let mut events = Events { out: &mut out, token: "s_a.b", positions: &mut positions };
        events.numbered(7, &Event::Unsubscribed { channel: "news", reason: "forbidden" });
        heartbeat(&mut out);
        let entropy = Entropy::system();
        farewell(&mut out, CloseCode::Kicked, &entropy);
        farewell(&mut out, CloseCode::Lifetime, &entropy);
        let text = concat!(
            "id: s_a.b:7\ndata: {\"unsubscribed\":{\"channel\":\"news\",\"reason\":\"forbidden\"}}\n\n",
            ":\n",
            "retry: 2147483647\n\nid: end\ndata: {\"goaway\":{\"reason\":\"kicked\",\"retry_ms\":2147483647}}\n\n",
            "retry: 1000\n\ndata: {\"goaway\":{\"reason\":\"lifetime\",\"retry_ms\":1000}}\n\n",
        );
        assert_eq!(String::from_utf8(out).as_deref(), Ok(text));
    }
}
