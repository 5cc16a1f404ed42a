use std::time::Duration;

use encke_broker::channel::LogMessage;
use encke_core::close::CloseCode;
use encke_core::dialect::ServerEvent;
use encke_core::dialect::bayeux::{Ack, Advice, Extensions, MessageReply, MissedEvents, ReplyTo};
use hyper::StatusCode;

use super::response::PollResponse;
use crate::admission::BrowserPoll;
use crate::client::Attachment;
use crate::client::bayeux::{end_pause_advice, final_reply};
use crate::connection::transport::bayeux_arrays::{append_event, array_len, write_array};
use crate::session::{Channel, DeliveryWriter};

/// Response to a request with a `/meta/connect`: messages, then the replies to the request's other messages,
/// then the reply to the `/meta/connect`.
#[derive(Debug)]
pub(crate) struct ConnectResponseWriter {
    connect: ReplyTo,
    /// Replies written so far, separated by commas.
    pub(crate) replies: String,
    /// Last seq that the client has received, if it acknowledges messages.
    pub(super) acknowledged: Option<u64>,
    /// Advice to send. If `None`, advice is sent only to end a pause that was advised earlier.
    advice: Option<Advice>,
    /// Name of the function that the response calls, if the response is a script.
    pub(crate) callback: Option<Box<str>>,
    /// Keeps the poll counted against its browser's limit until the response is written.
    pub(crate) browser: Option<BrowserPoll>,
    /// Messages taken from the session, separated by commas.
    events: Vec<u8>,
    pub(super) missed: MissedEvents,
    /// Seq of the last event taken from the session.
    seq: Option<u64>,
    /// Whether a subscription has begun or ended.
    has_notice: bool,
    /// Pause that the response asks for.
    pub(super) pause: Duration,
}

impl ConnectResponseWriter {
    pub(crate) fn new(
        connect: ReplyTo,
        acknowledged: Option<u64>,
        advice: Option<Advice>,
        browser: Option<BrowserPoll>,
    ) -> Self {
        Self {
            connect,
            replies: String::new(),
            acknowledged,
            advice,
            callback: None,
            browser,
            events: Vec::new(),
            missed: MissedEvents::default(),
            seq: None,
            has_notice: false,
            pause: Duration::ZERO,
        }
    }

    fn content(&mut self, reply: &str) -> PollResponse {
        // Release the browser's poll first: the client may poll again as soon as it has the response.
        self.browser = None;
        let events = std::mem::take(&mut self.events);
        let replies = std::mem::take(&mut self.replies);
        array_response(&[&events, replies.as_bytes(), reply.as_bytes()], self.callback.as_deref())
    }

    pub(super) fn has_messages(&self) -> bool {
        self.seq.is_some() || self.has_notice
    }

    pub(super) fn discard_messages(&mut self) {
        self.events.clear();
        self.missed.discard_resendable();
        (self.seq, self.has_notice) = (None, false);
    }

    pub(super) fn respond(&mut self, attachment: &Attachment) -> PollResponse {
        let advice = self.advice.or_else(|| end_pause_advice(attachment));
        self.pause = advice.and_then(|advice| advice.interval).unwrap_or_default();
        let ack = self.acknowledged.map(|before| Ack::UpTo(self.seq.unwrap_or(before)));
        let ext = Extensions { ack, encke: Some(&self.missed) };
        let reply = MessageReply { advice, ext, ..self.connect.reply().succeeded() }.to_json();
        self.content(&reply)
    }

    pub(super) fn respond_closed(&mut self, code: CloseCode, attachment: &Attachment) -> PollResponse {
        self.discard_messages();
        let reply = final_reply(self.connect.reply(), code, attachment).to_json();
        self.content(&reply)
    }
}

impl DeliveryWriter for ConnectResponseWriter {
    fn len(&self) -> usize {
        self.events.len()
    }

    fn message(&mut self, seq: u64, channel: &Channel, _: u64, message: &LogMessage) {
        append_event(channel, message, &mut self.events);
        self.seq = Some(seq);
    }

    fn gap(&mut self, seq: u64, _: &Channel, gap: &ServerEvent<'_>, _: Option<u64>) {
        self.missed.record(gap);
        self.seq = Some(seq);
    }

    fn notice(&mut self, _: u64, notice: &ServerEvent<'_>) {
        self.missed.record(notice);
        self.has_notice = true;
    }
}

/// Creates a response with an array of `parts`. Each part is empty or a list of members separated by commas.
/// With a callback, the response is a script.
pub(crate) fn array_response(parts: &[&[u8]], callback: Option<&str>) -> PollResponse {
    let mut body = Vec::with_capacity(array_len(parts));
    write_array(parts, &mut body);
    match callback {
        None => PollResponse::json(StatusCode::OK, body),
        Some(callback) => script(callback, &body),
    }
}

/// Creates a script that calls a function of the page. The leading comment ensures that the response does not
/// begin with the function's name, whose bytes could pass for a file of another type. U+2028 and U+2029 are
/// valid in JSON strings, but end a line in older JavaScript.
fn script(callback: &str, json: &[u8]) -> PollResponse {
    let json = String::from_utf8_lossy(json).replace('\u{2028}', r"\u2028").replace('\u{2029}', r"\u2029");
    PollResponse {
        status: StatusCode::OK,
        media_type: "text/javascript; charset=utf-8",
        body: format!("/**/{callback}({json});").into_bytes(),
        headers: "x-content-type-options: nosniff\r\n".to_owned(),
    }
}
