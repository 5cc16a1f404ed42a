use std::io::Write;

use encke_core::dialect::json::Json;
use encke_core::dialect::{Dialect, Event, Texts};
use encke_core::encodings::Cached;
use hyper::StatusCode;

use super::SUPERSEDED_PAUSE;
use crate::channel::LogMessage;
use crate::session::{Channel, Outgoing};
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
}

/// A whole answer. `headers` are lines.
pub(super) fn response(status: StatusCode, headers: &[u8], body: &[u8], keep_alive: bool) -> Vec<u8> {
    // A line of status, four headers, a number.
    const HEAD_BYTES: usize = 160;
    let mut response = Vec::with_capacity(HEAD_BYTES + headers.len() + body.len());
    let reason = status.canonical_reason().unwrap_or_default();
    write!(
        response,
        "HTTP/1.1 {} {reason}\r\ncontent-type: application/json\r\ncache-control: no-store\r\ncontent-length: {}\r\n",
        status.as_u16(),
        body.len()
    )
    .expect("memory takes everything");
    response.extend_from_slice(headers);
    if !keep_alive {
        response.extend_from_slice(b"connection: close\r\n");
    }
    response.extend_from_slice(b"\r\n");
    response.extend_from_slice(body);
    response
}

/// What a poll gets instead of which there is another. Two clients that hold one session would have each other answered without end:
/// so both have to pause.
pub(super) fn superseded(headers: &[u8], keep_alive: bool) -> Vec<u8> {
    let mut headers = headers.to_vec();
    write!(headers, "retry-after: {}\r\n", SUPERSEDED_PAUSE.as_secs()).expect("memory takes everything");
    let body = br#"{"error":{"code":"superseded","message":"another poll of the session has come"}}"#;
    response(StatusCode::CONFLICT, &headers, body, keep_alive)
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
        let answer = response(StatusCode::OK, b"vary: origin\r\n", b"[]", false);
        let expected = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncache-control: no-store\r\n\
            content-length: 2\r\nvary: origin\r\nconnection: close\r\n\r\n[]";
        assert_eq!(String::from_utf8(answer).as_deref(), Ok(expected));
        let answer = String::from_utf8(superseded(b"", true)).expect("text");
        assert!(
            answer.starts_with("HTTP/1.1 409 Conflict\r\n") && answer.contains("retry-after: 1\r\n\r\n{")
        );
    }
}
