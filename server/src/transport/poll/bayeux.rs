use std::time::Duration;

use encke_core::close::CloseCode;
use encke_core::dialect::bayeux::{Ack, Advice, EnckeExtension, Extensions, Missed, Reply, ReplyTo};
use encke_core::dialect::{DialectName, Event};
use hyper::StatusCode;

use super::answer::Content;
use super::form::Form;
use crate::admission::BrowserPoll;
use crate::channel::{ChannelName, LogMessage};
use crate::client::bayeux::{farewell, go_on_advice};
use crate::client::{Attachment, unsubscribed};
use crate::session::{Channel, Outgoing, Transport};
use crate::transport::bayeux_texts::{append_event, array_len, write_array};

/// The answer to a request with a `/meta/connect`: messages, then the replies to what came with it, then its own.
#[derive(Debug)]
pub(crate) struct ConnectForm {
    pub(crate) connect: ReplyTo,
    /// Replies that are there already, separated by commas.
    pub(crate) replies: String,
    /// What the client has, if it acknowledges.
    pub(crate) acknowledged: Option<u64>,
    /// What to tell the client, if there is something to tell in any case.
    pub(crate) advice: Option<Advice>,
    /// The function that is called with the answer, if that is a script.
    pub(crate) callback: Option<Box<str>>,
    /// Held until the answer is made.
    pub(crate) browser: Option<BrowserPoll>,
    pub(crate) taken: Taken,
    /// What the answer asks for.
    pub(crate) pause: Duration,
}

/// What the session had for the client.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// Separated by commas.
    events: Vec<u8>,
    missed: Missed,
    /// The last, if there was one.
    seq: Option<u64>,
    /// A subscription has begun or ended.
    has_notice: bool,
}

impl ConnectForm {
    fn content(&mut self, reply: &str) -> Content {
        // Before anyone can see that this request has ended.
        self.browser = None;
        let Taken { events, .. } = std::mem::take(&mut self.taken);
        let replies = std::mem::take(&mut self.replies);
        array(&[&events, replies.as_bytes(), reply.as_bytes()], self.callback.as_deref())
    }
}

/// In a box: the task of a poll that is held is as large as all that it may hold.
impl Form for Box<ConnectForm> {
    const DIALECT: DialectName = DialectName::Bayeux;

    /// A handshake has done that.
    fn greet(&mut self, _: &Attachment) {}

    fn refused(&mut self, channel: &ChannelName, reason: &'static str) {
        self.taken.missed.note(&unsubscribed(channel, reason));
    }

    fn begin(&mut self) {}

    fn has_taken(&self) -> bool {
        self.taken.seq.is_some() || self.taken.has_notice
    }

    fn forget_taken(&mut self) {
        self.taken.events.clear();
        self.taken.missed.forget_taken();
        (self.taken.seq, self.taken.has_notice) = (None, false);
    }

    fn answer(&mut self, attachment: &Attachment) -> Content {
        let advice = self.advice.or_else(|| go_on_advice(&attachment.session));
        self.pause = advice.and_then(|advice| advice.interval).unwrap_or_default();
        let ack = self.acknowledged.map(|before| Ack::UpTo(self.taken.seq.unwrap_or(before)));
        let ext = Extensions { ack, encke: EnckeExtension(Some(&self.taken.missed)) };
        let reply = Reply { advice, ext, ..self.connect.reply().succeeded() }.to_json();
        self.content(&reply)
    }

    fn goodbye(&mut self, code: CloseCode, attachment: &Attachment) -> Content {
        let reply = farewell(self.connect.reply(), code, attachment).to_json();
        self.content(&reply)
    }

    /// An error would keep some clients away for longer.
    fn superseded(&mut self, attachment: &Attachment) -> Content {
        self.goodbye(CloseCode::Replaced, attachment)
    }

    fn pause(&self) -> Duration {
        self.pause
    }
}

impl Outgoing for Box<ConnectForm> {
    const TRANSPORT: Transport = Transport::Poll;

    fn len(&self) -> usize {
        self.taken.events.len()
    }

    fn message(&mut self, seq: u64, channel: &Channel, _: u64, message: &LogMessage) {
        append_event(channel, message, &mut self.taken.events);
        self.taken.seq = Some(seq);
    }

    fn gap(&mut self, seq: u64, _: &Channel, gap: &Event<'_>, _: Option<u64>) {
        self.taken.missed.note(gap);
        self.taken.seq = Some(seq);
    }

    fn notice(&mut self, _: u64, notice: &Event<'_>) {
        self.taken.missed.note(notice);
        self.taken.has_notice = true;
    }
}

/// An array of these parts, of which each is empty or has its members separated by commas. With a callback it is a script.
pub(crate) fn array(parts: &[&[u8]], callback: Option<&str>) -> Content {
    let mut body = Vec::with_capacity(array_len(parts));
    write_array(parts, &mut body);
    match callback {
        None => Content::json(StatusCode::OK, body),
        Some(callback) => script(callback, &body),
    }
}

/// A call of a function of the page. The comment keeps the name from being the first bytes of a file of another kind. Two characters
/// that JSON has in strings end a line in older JavaScript.
fn script(callback: &str, json: &[u8]) -> Content {
    let json = String::from_utf8_lossy(json).replace('\u{2028}', r"\u2028").replace('\u{2029}', r"\u2029");
    Content {
        status: StatusCode::OK,
        media_type: "text/javascript; charset=utf-8",
        body: format!("/**/{callback}({json});").into_bytes(),
        headers: "x-content-type-options: nosniff\r\n".to_owned(),
    }
}
