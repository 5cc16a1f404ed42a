//! Events of the HTML standard, section 9.2: unnamed, each an object of the dialect in one line.

use encke_core::close::CloseCode;
use encke_core::dialect::json::Json;
use encke_core::dialect::{Dialect, Event, Texts};
use encke_core::encodings::{Cached, Encodings};

use crate::client::{goaway, retry_ms, starts_new_session};
use crate::entropy::Entropy;
use crate::session::Outgoing;

/// What an event has besides its token and its text: the names of two fields, a seq, line breaks.
const FIELDS_BYTES: usize = 40;

/// Events, one after the other.
pub(crate) struct Events<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    /// The session's resume token: with a seq it is the id that an `EventSource` comes back with.
    pub(crate) token: &'a str,
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

    /// A comment: the client's code does not see it, but the network in between does.
    pub(super) fn heartbeat(&mut self) {
        self.out.extend_from_slice(b":\n\n");
    }

    /// The last event of a stream: why it ends, and when to come back.
    pub(crate) fn farewell(&mut self, code: CloseCode, entropy: &Entropy) {
        let retry = retry_ms(code, entropy);
        self.out.extend_from_slice(format!("retry: {retry}\n\n").as_bytes());
        if starts_new_session(code) {
            // Without an id to come back with, it asks for what it asked for at first.
            self.out.extend_from_slice(b"id:\n");
        }
        self.plain(&goaway(code, retry));
    }

    fn id(&mut self, seq: u64) {
        self.out.extend_from_slice(format!("id: {}:{seq}\n", self.token).as_bytes());
    }
}

impl Texts for Events<'_> {
    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(b"data: ");
        self.out.extend_from_slice(text.as_bytes());
        self.out.extend_from_slice(b"\n\n");
    }
}

impl Outgoing for Events<'_> {
    fn len(&self) -> usize {
        self.out.len()
    }

    fn message(&mut self, seq: u64, message: &Encodings) {
        let message = Json::of(message);
        self.out.reserve(FIELDS_BYTES + self.token.len() + message.len_with(seq));
        self.id(seq);
        self.out.extend_from_slice(b"data: ");
        message.write_with(seq, self.out);
        self.out.extend_from_slice(b"\n\n");
    }

    fn gap(&mut self, seq: u64, gap: &Event<'_>) {
        self.numbered(seq, gap);
    }
}

/// Reads the id of the last event that a client has: a resume token and a seq.
pub(crate) fn parse_id(id: &str) -> Option<(String, u64)> {
    let (token, seq) = id.rsplit_once(':')?;
    Some((token.to_owned(), seq.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use encke_core::message::{CompactJson, Message};

    use super::*;

    #[test]
    fn events_are_lines() {
        let mut out = Vec::new();
        let mut events = Events { out: &mut out, token: "s_a.b" };
        let data = CompactJson::parse(r#"{"a":"\n"}"#).expect("good JSON");
        let message = Message { channel: "news", epoch: "e", offset: 42, data: &data };
        events.message(7, &Encodings::new(&message));
        events.heartbeat();
        let entropy = Entropy::system();
        events.farewell(CloseCode::Kicked, &entropy);
        events.farewell(CloseCode::Lifetime, &entropy);
        let text = concat!(
            "id: s_a.b:7\ndata: {\"message\":{\"seq\":7,\"channel\":\"news\",\"offset\":42,\"data\":{\"a\":\"\\n\"}}}\n\n",
            ":\n\n",
            "retry: 2147483647\n\ndata: {\"goaway\":{\"reason\":\"kicked\",\"retry_ms\":2147483647}}\n\n",
            "retry: 1000\n\nid:\ndata: {\"goaway\":{\"reason\":\"lifetime\",\"retry_ms\":1000}}\n\n",
        );
        assert_eq!(String::from_utf8(out).as_deref(), Ok(text));
        assert_eq!(parse_id("s_a.b:7"), Some(("s_a.b".into(), 7)));
        for id in ["", "7", "s_a.b:", "s_a.b:x", "s_a.b:-1"] {
            assert_eq!(parse_id(id), None, "{id}");
        }
    }
}
