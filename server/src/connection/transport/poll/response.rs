use std::io::Write;
use std::time::Duration;

use encke_broker::channel::LogMessage;
use encke_core::dialect::json::Json;
use encke_core::dialect::{Dialect, ServerEvent, TextSink};
use encke_timeouts::clock::UnixTime;
use hyper::StatusCode;

use crate::connection::transport::pattern_origin::pattern_origin;
use crate::http::{http_date, keep_alive_value};
use crate::session::Channel;

/// JSON array of objects in the `json` dialect.
#[derive(Debug, Default)]
pub(crate) struct JsonArray {
    /// The array without its closing bracket.
    bytes: Vec<u8>,
}

impl JsonArray {
    pub(super) fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        if self.bytes.is_empty() {
            self.bytes.push(b'[');
        }
        self.bytes.push(b']');
        self.bytes
    }

    /// Takes the array, and creates a response with it.
    pub(super) fn take_response(&mut self) -> PollResponse {
        PollResponse::json(StatusCode::OK, std::mem::take(self).into_bytes())
    }

    pub(crate) fn notify(&mut self, event: &ServerEvent<'_>) {
        Json::default().notify(event, self);
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn message(&mut self, seq: u64, channel: &Channel, offset: u64, message: &LogMessage) {
        let by = pattern_origin(channel, offset, message);
        let message = message.encoded();
        // Two more bytes for a bracket or comma and the closing bracket.
        self.bytes.reserve(message.len_with(seq, by) + 2);
        self.separate();
        message.write_with(seq, by, &mut self.bytes);
    }

    fn separate(&mut self) {
        self.bytes.push(if self.bytes.is_empty() { b'[' } else { b',' });
    }
}

impl TextSink for JsonArray {
    fn text(&mut self, text: &str) {
        self.separate();
        self.bytes.extend_from_slice(text.as_bytes());
    }
}

/// Response to a poll, without the headers that depend on the connection.
#[derive(Debug)]
pub(crate) struct PollResponse {
    pub(crate) status: StatusCode,
    pub(crate) media_type: &'static str,
    pub(crate) body: Vec<u8>,
    /// Additional header lines of this response.
    pub(crate) headers: String,
}

impl PollResponse {
    pub(super) fn json(status: StatusCode, body: Vec<u8>) -> Self {
        Self { status, media_type: "application/json", body, headers: String::new() }
    }

    /// Serializes the complete response. `headers` are complete lines. `keep_alive` is how long the connection
    /// waits for the next request; `None` if it closes.
    pub(super) fn response(&self, headers: &[u8], keep_alive: Option<Duration>, now: UnixTime) -> Vec<u8> {
        // Size of the status line, six headers, and a number.
        const HEAD_BYTES: usize = 232;
        let mut response =
            Vec::with_capacity(HEAD_BYTES + headers.len() + self.headers.len() + self.body.len());
        let reason = self.status.canonical_reason().unwrap_or_default();
        write!(
            response,
            "HTTP/1.1 {} {reason}\r\ncontent-type: {}\r\ncache-control: no-store\r\ndate: {}\r\ncontent-length: {}\r\n",
            self.status.as_u16(),
            self.media_type,
            http_date(now),
            self.body.len()
        )
        .expect("writing to a Vec cannot fail");
        response.extend_from_slice(headers);
        response.extend_from_slice(self.headers.as_bytes());
        match keep_alive {
            Some(timeout) => write!(response, "keep-alive: {}\r\n", keep_alive_value(timeout)),
            None => write!(response, "connection: close\r\n"),
        }
        .expect("writing to a Vec cannot fail");
        response.extend_from_slice(b"\r\n");
        response.extend_from_slice(&self.body);
        response
    }
}

#[cfg(test)]
mod tests {
    use encke_core::close::CloseCode;

    use super::*;

    #[test]
    fn texts_form_an_array() {
        assert_eq!(JsonArray::default().into_bytes(), b"[]");
        let mut array = JsonArray::default();
        array.text("1");
        array.notify(&ServerEvent::Goaway { code: CloseCode::Kicked, retry: Duration::from_millis(7) });
        assert_eq!(array.into_bytes(), br#"[1,{"goaway":{"reason":"kicked","retry_ms":7}}]"#);
    }

    #[test]
    fn response_has_its_content_length() {
        let answer = PollResponse::json(StatusCode::OK, b"[]".to_vec()).response(
            b"vary: origin\r\n",
            None,
            UnixTime::from_secs(784_111_777),
        );
        let expected = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncache-control: no-store\r\n\
            date: Sun, 06 Nov 1994 08:49:37 GMT\r\ncontent-length: 2\r\nvary: origin\r\nconnection: close\r\n\r\n[]";
        assert_eq!(String::from_utf8(answer).as_deref(), Ok(expected));
    }
}
