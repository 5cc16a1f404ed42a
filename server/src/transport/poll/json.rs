use std::time::Duration;

use encke_core::close::CloseCode;
use encke_core::dialect::{DialectName, ServerEvent};
use hyper::StatusCode;

use super::SUPERSEDED_PAUSE;
use super::response::{JsonArray, PollResponse};
use super::response_writer::PollResponseWriter;
use crate::channel::{ChannelName, LogMessage};
use crate::client::{Attachment, goaway, hello, retry_ms, unsubscribed};
use crate::session::{Channel, DeliveryWriter};

/// Response in the `json` dialect: an array of the objects that a WebSocket client would receive.
#[derive(Debug, Default)]
pub(crate) struct JsonResponseWriter {
    array: JsonArray,
    /// Length of `array` before messages were taken from the session.
    messages_start: usize,
}

impl JsonResponseWriter {
    fn ok(&mut self) -> PollResponse {
        PollResponse::json(StatusCode::OK, std::mem::take(&mut self.array).into_bytes())
    }
}

impl PollResponseWriter for JsonResponseWriter {
    const DIALECT: DialectName = DialectName::Json;

    fn greet(&mut self, attachment: &Attachment) {
        let token = attachment.session.resume_token().expose();
        self.array.notify(&hello(attachment, &token, false));
    }

    fn report_refused(&mut self, channel: &ChannelName, reason: &'static str) {
        self.array.notify(&unsubscribed(channel, reason));
    }

    fn begin_messages(&mut self) {
        self.messages_start = self.array.len();
    }

    fn has_messages(&self) -> bool {
        self.array.len() > self.messages_start
    }

    fn discard_messages(&mut self) {
        self.array.truncate(self.messages_start);
    }

    fn respond(&mut self, _: &Attachment) -> PollResponse {
        self.ok()
    }

    fn respond_closed(&mut self, code: CloseCode, attachment: &Attachment) -> PollResponse {
        let retry_ms = retry_ms(code, &attachment.services.entropy);
        self.array.notify(&goaway(code, retry_ms));
        self.ok()
    }

    fn respond_superseded(&mut self, _: &Attachment) -> PollResponse {
        superseded()
    }

    fn pause(&self) -> Duration {
        Duration::ZERO
    }
}

fn superseded() -> PollResponse {
    let body = br#"{"error":{"code":"superseded","message":"another poll of the session has arrived"}}"#;
    let headers = format!("retry-after: {}\r\n", SUPERSEDED_PAUSE.as_secs());
    PollResponse { headers, ..PollResponse::json(StatusCode::CONFLICT, body.to_vec()) }
}

impl DeliveryWriter for JsonResponseWriter {
    fn len(&self) -> usize {
        self.array.len()
    }

    fn message(&mut self, seq: u64, channel: &Channel, offset: u64, message: &LogMessage) {
        self.array.message(seq, channel, offset, message);
    }

    fn gap(&mut self, seq: u64, channel: &Channel, gap: &ServerEvent<'_>, last: Option<u64>) {
        self.array.gap(seq, channel, gap, last);
    }

    fn notice(&mut self, sent: u64, notice: &ServerEvent<'_>) {
        self.array.notice(sent, notice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superseded_poll_gets_retry_after() {
        let answer = superseded().response(b"", true);
        let answer = String::from_utf8(answer).expect("text");
        assert!(
            answer.starts_with("HTTP/1.1 409 Conflict\r\n") && answer.contains("retry-after: 1\r\n\r\n{")
        );
    }
}
