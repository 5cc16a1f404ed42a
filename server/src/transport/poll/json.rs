use std::time::Duration;

use encke_core::close::CloseCode;
use encke_core::dialect::{DialectName, Event};
use hyper::StatusCode;

use super::SUPERSEDED_PAUSE;
use super::answer::{Array, Content};
use super::form::Form;
use crate::channel::{ChannelName, LogMessage};
use crate::client::{Attachment, goaway, hello, retry_ms, unsubscribed};
use crate::session::{Channel, Outgoing, Transport};

/// An answer in the `json` dialect: the objects that a WebSocket would get.
#[derive(Debug, Default)]
pub(crate) struct JsonForm {
    array: Array,
    /// The length of what was there before anything was taken.
    before: usize,
}

impl JsonForm {
    fn ok(&mut self) -> Content {
        Content::json(StatusCode::OK, std::mem::take(&mut self.array).into_bytes())
    }
}

impl Form for JsonForm {
    const DIALECT: DialectName = DialectName::Json;

    fn greet(&mut self, attachment: &Attachment) {
        let token = attachment.session.resume_token().expose();
        self.array.notify(&hello(attachment, &token, false));
    }

    fn refused(&mut self, channel: &ChannelName, reason: &'static str) {
        self.array.notify(&unsubscribed(channel, reason));
    }

    fn begin(&mut self) {
        self.before = self.array.len();
    }

    fn has_taken(&self) -> bool {
        self.array.len() > self.before
    }

    fn forget_taken(&mut self) {
        self.array.truncate(self.before);
    }

    fn answer(&mut self, _: &Attachment) -> Content {
        self.ok()
    }

    fn goodbye(&mut self, code: CloseCode, attachment: &Attachment) -> Content {
        let retry_ms = retry_ms(code, &attachment.context.entropy);
        self.array.notify(&goaway(code, retry_ms));
        self.ok()
    }

    fn superseded(&mut self, _: &Attachment) -> Content {
        superseded()
    }

    fn pause(&self) -> Duration {
        Duration::ZERO
    }
}

fn superseded() -> Content {
    let body = br#"{"error":{"code":"superseded","message":"another poll of the session has come"}}"#;
    let headers = format!("retry-after: {}\r\n", SUPERSEDED_PAUSE.as_secs());
    Content { headers, ..Content::json(StatusCode::CONFLICT, body.to_vec()) }
}

impl Outgoing for JsonForm {
    const TRANSPORT: Transport = Transport::Poll;

    fn len(&self) -> usize {
        self.array.len()
    }

    fn message(&mut self, seq: u64, channel: &Channel, offset: u64, message: &LogMessage) {
        self.array.message(seq, channel, offset, message);
    }

    fn gap(&mut self, seq: u64, channel: &Channel, gap: &Event<'_>, last: Option<u64>) {
        self.array.gap(seq, channel, gap, last);
    }

    fn notice(&mut self, sent: u64, notice: &Event<'_>) {
        self.array.notice(sent, notice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superseded_poll_is_told_to_wait() {
        let answer = superseded().response(b"", true);
        let answer = String::from_utf8(answer).expect("text");
        assert!(
            answer.starts_with("HTTP/1.1 409 Conflict\r\n") && answer.contains("retry-after: 1\r\n\r\n{")
        );
    }
}
