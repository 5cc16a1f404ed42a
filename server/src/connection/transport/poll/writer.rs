use std::time::Duration;

use encke_broker::channel::LogMessage;
use encke_core::close::CloseCode;
use encke_core::dialect::{DialectName, ServerEvent};
use hyper::StatusCode;

use super::bayeux::ConnectResponseWriter;
use super::response::{JsonArray, PollResponse};
use crate::client::{Attachment, goaway, hello, unsubscribed};
use crate::connection::RefusedChannel;
use crate::http::reply::SUPERSEDED_PAUSE;
use crate::session::{Channel, DeliveryWriter};

/// Writes the response to a poll in the client's dialect.
#[derive(Debug)]
pub(crate) enum ResponseWriter {
    /// Response in the `json` dialect: an array of the objects that a WebSocket client would receive.
    Json {
        array: JsonArray,
        /// Length of `array` before messages were taken from the session.
        messages_start: usize,
    },
    /// Boxed, because the task that holds a poll is as large as everything it may contain.
    Bayeux(Box<ConnectResponseWriter>),
}

impl ResponseWriter {
    pub(crate) fn json() -> Self {
        Self::Json { array: JsonArray::default(), messages_start: 0 }
    }

    pub(super) fn dialect(&self) -> DialectName {
        match self {
            Self::Json { .. } => DialectName::Json,
            Self::Bayeux(_) => DialectName::Bayeux,
        }
    }

    /// Whether only the client's next request can show that the client has received the response.
    pub(super) fn lacks_acknowledgement(&self) -> bool {
        matches!(self, Self::Bayeux(writer) if writer.acknowledged.is_none())
    }

    /// Greets the client of a new session, and reports the channels whose subscription was refused or
    /// revoked.
    pub(super) fn greet(&mut self, refused: &[RefusedChannel], recovered: bool, attachment: &Attachment) {
        match self {
            Self::Json { array, .. } => {
                if !recovered {
                    let token = attachment.session.resume_token().expose();
                    array.notify(&hello(attachment, &token, false));
                }
                refused.iter().for_each(|(channel, reason)| array.notify(&unsubscribed(channel, reason)));
            }
            // The reply to the handshake has already greeted the client.
            Self::Bayeux(writer) => {
                refused
                    .iter()
                    .for_each(|(channel, reason)| writer.missed.record(&unsubscribed(channel, reason)));
            }
        }
        self.begin_messages();
    }

    /// Marks where messages begin. Called before messages are taken from the session.
    pub(super) fn begin_messages(&mut self) {
        if let Self::Json { array, messages_start } = self {
            *messages_start = array.len();
        }
    }

    /// Whether any messages were taken since [`Self::begin_messages`].
    pub(super) fn has_messages(&self) -> bool {
        match self {
            Self::Json { array, messages_start } => array.len() > *messages_start,
            Self::Bayeux(writer) => writer.has_messages(),
        }
    }

    /// Discards the messages taken since [`Self::begin_messages`], because another connection gets them.
    pub(super) fn discard_messages(&mut self) {
        match self {
            Self::Json { array, messages_start } => array.truncate(*messages_start),
            Self::Bayeux(writer) => writer.discard_messages(),
        }
    }

    /// Builds the regular response.
    pub(super) fn respond(&mut self, attachment: &Attachment) -> PollResponse {
        match self {
            Self::Json { array, .. } => array.take_response(),
            Self::Bayeux(writer) => writer.respond(attachment),
        }
    }

    /// Builds the response for a session that releases its client. The response says when to reconnect, since
    /// there is no Close frame.
    pub(super) fn respond_closed(&mut self, code: CloseCode, attachment: &Attachment) -> PollResponse {
        match self {
            Self::Json { array, .. } => {
                array.notify(&goaway(code, &attachment.services.entropy));
                array.take_response()
            }
            Self::Bayeux(writer) => writer.respond_closed(code, attachment),
        }
    }

    /// Builds the response for a poll that is superseded by another poll of its session.
    pub(super) fn respond_superseded(&mut self, attachment: &Attachment) -> PollResponse {
        match self {
            Self::Json { .. } => superseded(),
            // Respond as to a replaced connection, because an error would make some clients wait longer
            // before the next poll.
            Self::Bayeux(writer) => writer.respond_closed(CloseCode::Replaced, attachment),
        }
    }

    /// How long the response asks the client to wait before its next poll.
    pub(super) fn pause(&self) -> Duration {
        match self {
            Self::Json { .. } => Duration::ZERO,
            Self::Bayeux(writer) => writer.pause,
        }
    }
}

fn superseded() -> PollResponse {
    let body = br#"{"error":{"code":"superseded","message":"the session has a newer connection"}}"#;
    let headers = format!("retry-after: {}\r\n", SUPERSEDED_PAUSE.as_secs());
    PollResponse { headers, ..PollResponse::json(StatusCode::CONFLICT, body.to_vec()) }
}

impl DeliveryWriter for ResponseWriter {
    fn len(&self) -> usize {
        match self {
            Self::Json { array, .. } => array.len(),
            Self::Bayeux(writer) => writer.len(),
        }
    }

    fn message(&mut self, seq: u64, channel: &Channel, offset: u64, message: &LogMessage) {
        match self {
            Self::Json { array, .. } => array.message(seq, channel, offset, message),
            Self::Bayeux(writer) => writer.message(seq, channel, offset, message),
        }
    }

    fn gap(&mut self, seq: u64, channel: &Channel, gap: &ServerEvent<'_>, last: Option<u64>) {
        match self {
            Self::Json { array, .. } => array.notify(gap),
            Self::Bayeux(writer) => writer.gap(seq, channel, gap, last),
        }
    }

    fn notice(&mut self, sent: u64, notice: &ServerEvent<'_>) {
        match self {
            Self::Json { array, .. } => array.notify(notice),
            Self::Bayeux(writer) => writer.notice(sent, notice),
        }
    }
}

#[cfg(test)]
mod tests {
    use encke_timeouts::clock::UnixTime;

    use super::*;

    #[test]
    fn superseded_poll_gets_retry_after() {
        let answer = superseded().response(b"", None, UnixTime::from_secs(0));
        let answer = String::from_utf8(answer).expect("text");
        assert!(answer.starts_with("HTTP/1.1 409 Conflict\r\n") && answer.contains("retry-after: 1\r\n"));
    }
}
