//! Bayeux over a WebSocket. Messages are sent as they come, unless the client acknowledges what it gets: then they ride on replies to
//! `/meta/connect`, so that it has both or neither.

use encke_core::close::CloseCode;
use encke_core::dialect::bayeux::{
    Ack, Bayeux, ClientMessage, EnckeExtension, Extensions, MessageKind, Reply, messages,
};
use encke_core::dialect::{Dialect, DialectName, Event, Request, Response, Texts};
use encke_core::session::Heartbeat;

use super::frame::Frames;
use super::spoken::Spoken;
use crate::channel::LogMessage;
use crate::client::Attachment;
use crate::client::bayeux::{advice, farewell, go_on_advice};
use crate::session::Channel;
use crate::transport::bayeux_texts::{append_event, array_len, write_array};

/// The conversation of one WebSocket.
#[derive(Debug, Default)]
pub(crate) struct BayeuxSocket {
    dialect: Bayeux,
    /// If the client acknowledges what it gets.
    riding: Option<Box<Riding>>,
    /// The first gap that the client was not told of yet, if it does not acknowledge: the next answer tells.
    untold: Option<u64>,
    /// The handshake by which the client gives its session up for another.
    opening: Option<Box<str>>,
}

/// What is going to be answered.
#[derive(Debug, Default)]
struct Riding {
    /// Separated by commas.
    events: Vec<u8>,
    /// The last that the client was sent.
    seq: u64,
    /// Something came under that since the last answer.
    has_new: bool,
}

impl BayeuxSocket {
    /// With the client of this resume token. One that acknowledges has what is up to this seq.
    pub(crate) fn new(client_id: &str, acknowledged: Option<u64>) -> Self {
        let riding = acknowledged.map(|seq| Box::new(Riding { seq, ..Riding::default() }));
        Self { dialect: Bayeux::with_client(client_id), riding, untold: None, opening: None }
    }
}

impl Dialect for BayeuxSocket {
    const NAME: DialectName = Bayeux::NAME;

    type RequestId = <Bayeux as Dialect>::RequestId;

    fn heartbeat(&self) -> Heartbeat {
        self.dialect.heartbeat()
    }

    fn read<'a>(&mut self, text: &'a str) -> impl Iterator<Item = Request<'a, Self::RequestId>> + use<'a> {
        self.dialect.read(text)
    }

    fn respond(&mut self, responses: &[Response<'_, Self::RequestId>], to: &mut impl Texts) {
        self.dialect.respond(responses, to);
    }

    fn hold(&mut self, id: Option<Self::RequestId>, seq: Option<u64>, to: &mut impl Texts) {
        if let (Some(riding), Some(seq)) = (&mut self.riding, seq) {
            // An answer that said more would have the client acknowledge what it has not.
            riding.seq = seq;
        }
        self.dialect.hold(id, seq, to);
    }

    fn refuse_hold(&mut self, id: Option<Self::RequestId>, to: &mut impl Texts) {
        self.dialect.refuse_hold(id, to);
    }

    fn notify(&mut self, event: &Event<'_>, to: &mut impl Texts) {
        self.dialect.notify(event, to);
    }
}

impl Spoken for BayeuxSocket {
    /// What comes behind a text that opens another session is read by the next connection: it must not be read along with the text.
    const TURN_FRAMES: u16 = 1;
    /// Nor before the client has its answers, which that connection does not know of.
    const READS_WHILE_COMMANDS_WAIT: bool = false;

    fn takes_messages(&self) -> bool {
        let waits = self.riding.is_some() || self.untold.is_some();
        !waits || self.dialect.is_holding()
    }

    fn message(
        &mut self,
        seq: u64,
        channel: &Channel,
        _: u64,
        message: &LogMessage,
        frames: &mut Frames<'_>,
    ) {
        let Some(riding) = &mut self.riding else {
            let mut event = Vec::new();
            append_event(channel, message, &mut event);
            return write_text(&[&event], frames);
        };
        append_event(channel, message, &mut riding.events);
        (riding.seq, riding.has_new) = (seq, true);
    }

    fn gap(&mut self, seq: u64, gap: &Event<'_>, frames: &mut Frames<'_>) {
        self.notify(gap, frames);
        match &mut self.riding {
            Some(riding) => (riding.seq, riding.has_new) = (seq, true),
            None => _ = self.untold.get_or_insert(seq),
        }
    }

    /// Messages wait for the answer that has it, as for one with a gap that comes next.
    fn notice(&mut self, sent: u64, notice: &Event<'_>, frames: &mut Frames<'_>) {
        self.notify(notice, frames);
        match &mut self.riding {
            Some(riding) => riding.has_new = true,
            None => _ = self.untold.get_or_insert(sent.saturating_add(1)),
        }
    }

    fn told(&self, sent: u64) -> u64 {
        self.untold.map_or(sent, |gap| sent.min(gap.saturating_sub(1)))
    }

    fn kept(&self) -> usize {
        self.riding.as_ref().map_or(0, |riding| riding.events.len())
    }

    fn has_kept(&self) -> bool {
        self.riding.as_ref().map_or(self.untold.is_some(), |riding| riding.has_new)
    }

    fn answer(&mut self, attachment: &Attachment, frames: &mut Frames<'_>) -> bool {
        let Some((held, missed)) = self.dialect.release() else { return false };
        self.untold = None;
        let Attachment { session, context, .. } = attachment;
        let is_first = session.advise_all();
        let pause = go_on_advice(session);
        let advice = if is_first { Some(advice(context)) } else { pause };
        let ack = self.riding.as_ref().map(|riding| Ack::UpTo(riding.seq));
        let ext = Extensions { ack, encke: EnckeExtension(Some(&missed)) };
        let reply = Reply { advice, ext, ..held.reply().succeeded() }.to_json();
        let events = self.riding.as_mut().map(|riding| {
            riding.has_new = false;
            std::mem::take(&mut riding.events)
        });
        write_text(&[&events.unwrap_or_default(), reply.as_bytes()], frames);
        true
    }

    fn rides(&self) -> bool {
        self.riding.is_some()
    }

    /// What rides on answers is for the task.
    fn sends_at_rest(&self) -> bool {
        self.riding.is_none() && self.untold.is_none()
    }

    fn opens_anew(&mut self, text: &str) -> bool {
        if !has_handshake(text) {
            return false;
        }
        self.opening = Some(text.into());
        true
    }

    fn take_opening(&mut self) -> Option<String> {
        self.opening.take().map(String::from)
    }

    fn farewell(&mut self, code: CloseCode, attachment: &Attachment, frames: &mut Frames<'_>) {
        let Some((held, _)) = self.dialect.release() else { return };
        frames.text(&farewell(held.reply(), code, attachment).to_array());
    }
}

fn write_text(parts: &[&[u8]], frames: &mut Frames<'_>) {
    write_array(parts, frames.text_of(array_len(parts)));
}

fn has_handshake(text: &str) -> bool {
    let is_handshake = |text: &&str| {
        ClientMessage::parse(text).is_ok_and(|message| message.kind() == MessageKind::Handshake)
    };
    // Hardly any text has one.
    text.contains("handshake") && messages(text).is_ok_and(|texts| texts.iter().any(is_handshake))
}
