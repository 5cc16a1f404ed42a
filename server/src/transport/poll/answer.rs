use std::io::Write;

use encke_core::dialect::json::Json;
use encke_core::dialect::{Dialect, Event, Texts};
use encke_core::encodings::Cached;
use hyper::StatusCode;

use crate::channel::LogMessage;
use crate::session::{Channel, Outgoing, Transport};
use crate::transport::by_pattern::by_pattern;

/// Objects of the dialect, as one JSON array.
#[derive(Debug, Default)]
pub(crate) struct Array {
    /// Without the bracket at the end.
    bytes: Vec<u8>,
}

impl Array {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        if self.is_empty() {
            self.bytes.push(b'[');
        }
        self.bytes.push(b']');
        self.bytes
    }

    pub(crate) fn notify(&mut self, event: &Event<'_>) {
        Json::default().notify(event, self);
    }

    fn next(&mut self) {
        self.bytes.push(if self.bytes.is_empty() { b'[' } else { b',' });
    }
}

impl Texts for Array {
    fn text(&mut self, text: &str) {
        self.next();
        self.bytes.extend_from_slice(text.as_bytes());
    }
}

impl Outgoing for Array {
    const TRANSPORT: Transport = Transport::Poll;

    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn message(&mut self, seq: u64, channel: &Channel, offset: u64, message: &LogMessage) {
        let by = by_pattern::<Json>(channel, offset, message);
        let message = Json::of(message.encodings());
        // With brackets or a comma.
        self.bytes.reserve(message.len_with(seq, by) + 2);
        self.next();
        message.write_with(seq, by, &mut self.bytes);
    }

    fn gap(&mut self, _: u64, _: &Channel, gap: &Event<'_>, _: Option<u64>) {
        self.notify(gap);
    }

    fn notice(&mut self, _: u64, notice: &Event<'_>) {
        self.notify(notice);
    }
}

/// What an answer says.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) status: StatusCode,
    /// The type of the body.
    pub(crate) media_type: &'static str,
    pub(crate) body: Vec<u8>,
    /// Headers for this answer alone, as lines.
    pub(crate) headers: String,
}

impl Content {
    /// JSON.
    pub(super) fn json(status: StatusCode, body: Vec<u8>) -> Self {
        Self { status, media_type: "application/json", body, headers: String::new() }
    }

    /// The whole answer. `headers` are lines.
    pub(super) fn response(&self, headers: &[u8], keep_alive: bool) -> Vec<u8> {
        // A line of status, four headers, a number.
        const HEAD_BYTES: usize = 160;
        let mut response =
            Vec::with_capacity(HEAD_BYTES + headers.len() + self.headers.len() + self.body.len());
        let reason = self.status.canonical_reason().unwrap_or_default();
        write!(
            response,
            "HTTP/1.1 {} {reason}\r\ncontent-type: {}\r\ncache-control: no-store\r\ncontent-length: {}\r\n",
            self.status.as_u16(),
            self.media_type,
            self.body.len()
        )
        .expect("memory takes everything");
        response.extend_from_slice(headers);
        response.extend_from_slice(self.headers.as_bytes());
        if !keep_alive {
            response.extend_from_slice(b"connection: close\r\n");
        }
        response.extend_from_slice(b"\r\n");
        response.extend_from_slice(&self.body);
        response
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use encke_core::close::CloseCode;

    use super::*;

    #[test]
    fn an_array_of_texts() {
        assert_eq!(Array::default().into_bytes(), b"[]");
        let mut array = Array::default();
        array.text("1");
        array.notify(&Event::Goaway { code: CloseCode::Kicked, retry: Duration::from_millis(7) });
        assert_eq!(array.into_bytes(), br#"[1,{"goaway":{"reason":"kicked","retry_ms":7}}]"#);
    }

    #[test]
    fn an_answer_says_how_long_it_is() {
        let answer = Content::json(StatusCode::OK, b"[]".to_vec()).response(b"vary: origin\r\n", false);
        let expected = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncache-control: no-store\r\n\
            content-length: 2\r\nvary: origin\r\nconnection: close\r\n\r\n[]";
        assert_eq!(String::from_utf8(answer).as_deref(), Ok(expected));
    }
}
