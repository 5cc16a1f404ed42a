//! Bayeux over a WebSocket. Messages are sent as they arrive, unless the client acknowledges messages: in
//! that case, they are bundled with replies to `/meta/connect`, so that the client receives both or neither.

use encke_broker::channel::LogMessage;
use encke_core::close::CloseCode;
use encke_core::dialect::bayeux::{
    Ack, Bayeux, ClientMessage, Extensions, MessageKind, MessageReply, split_messages,
};
use encke_core::dialect::{Dialect, ServerEvent, TextSink};

use super::dialect::WebSocketDialect;
use super::frame::Frames;
use crate::client::Attachment;
use crate::client::bayeux::{advice, end_pause_advice, final_reply};
use crate::connection::transport::bayeux_arrays::{append_event, array_len, write_array};
use crate::session::Channel;

/// State of the dialect on one WebSocket.
#[derive(Debug, Default)]
pub(crate) struct BayeuxSocket {
    dialect: Bayeux,
    /// Set if the client acknowledges messages.
    bundle: Option<Box<BundledMessages>>,
    /// Seq of the first gap that has not been reported yet, if the client does not acknowledge messages. The
    /// next reply to a `/meta/connect` reports it.
    unreported_gap: Option<u64>,
    /// Text message with a handshake that replaces the session with another.
    handshake: Option<Box<str>>,
}

/// Messages to be sent with the next reply to a `/meta/connect`.
#[derive(Debug, Default)]
struct BundledMessages {
    /// Messages, separated by commas.
    events: Vec<u8>,
    /// Whether anything was added since the last reply.
    has_unsent: bool,
}

impl BayeuxSocket {
    /// Creates the state for the client with this resume token. `acknowledged` is the last seq that the
    /// client has received, if it acknowledges messages.
    pub(crate) fn new(client_id: &str, acknowledged: Option<u64>) -> Self {
        let bundle = acknowledged.is_some().then(Box::default);
        let mut dialect = Bayeux::with_client(client_id);
        dialect.seq = acknowledged.unwrap_or_default();
        Self { dialect, bundle, unreported_gap: None, handshake: None }
    }

    /// Takes the text message that opens another session.
    pub(crate) fn take_handshake(&mut self) -> Option<String> {
        self.handshake.take().map(String::from)
    }
}

impl WebSocketDialect for BayeuxSocket {
    type Dialect = Bayeux;

    /// Only one, because frames after a text message that opens another session belong to the next
    /// connection, so they must not be read together with that message.
    const FRAMES_PER_POLL: u16 = 1;
    /// False, because the next connection does not know of pending replies: the client must receive them
    /// before more input is read.
    const READS_WHILE_COMMANDS_PENDING: bool = false;

    fn dialect(&mut self) -> &mut Bayeux {
        &mut self.dialect
    }

    fn can_send_messages(&self) -> bool {
        let waits = self.bundle.is_some() || self.unreported_gap.is_some();
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
        let Some(bundle) = &mut self.bundle else {
            let mut event = Vec::new();
            append_event(channel, message, &mut event);
            return write_text(&[&event], frames);
        };
        append_event(channel, message, &mut bundle.events);
        (self.dialect.seq, bundle.has_unsent) = (seq, true);
    }

    fn gap(&mut self, seq: u64, gap: &ServerEvent<'_>, frames: &mut Frames<'_>) {
        self.dialect.notify(gap, frames);
        match &mut self.bundle {
            Some(bundle) => (self.dialect.seq, bundle.has_unsent) = (seq, true),
            None => _ = self.unreported_gap.get_or_insert(seq),
        }
    }

    /// Treats the notice like a gap at the next seq: messages wait for the reply that reports it.
    fn notice(&mut self, sent: u64, notice: &ServerEvent<'_>, frames: &mut Frames<'_>) {
        self.dialect.notify(notice, frames);
        match &mut self.bundle {
            Some(bundle) => bundle.has_unsent = true,
            None => _ = self.unreported_gap.get_or_insert(sent.saturating_add(1)),
        }
    }

    fn acknowledgeable_seq(&self, sent: u64) -> u64 {
        self.unreported_gap.map_or(sent, |gap| sent.min(gap.saturating_sub(1)))
    }

    fn buffered_bytes(&self) -> usize {
        self.bundle.as_ref().map_or(0, |bundle| bundle.events.len())
    }

    fn has_buffered(&self) -> bool {
        self.bundle.as_ref().map_or(self.unreported_gap.is_some(), |bundle| bundle.has_unsent)
    }

    fn answer_held(&mut self, attachment: &Attachment, frames: &mut Frames<'_>) -> bool {
        let Some((held, missed)) = self.dialect.release() else { return false };
        self.unreported_gap = None;
        let Attachment { session, services, .. } = attachment;
        let is_first = session.mark_advised();
        let pause = end_pause_advice(attachment);
        let advice = if is_first { Some(advice(services)) } else { pause };
        let ack = self.bundle.is_some().then_some(Ack::UpTo(self.dialect.seq));
        let ext = Extensions { ack, encke: Some(&missed) };
        let reply = MessageReply { advice, ext, ..held.reply().succeeded() }.to_json();
        let events = self.bundle.as_mut().map(|bundle| {
            bundle.has_unsent = false;
            std::mem::take(&mut bundle.events)
        });
        write_text(&[&events.unwrap_or_default(), reply.as_bytes()], frames);
        true
    }

    fn bundles_messages(&self) -> bool {
        self.bundle.is_some()
    }

    /// False if messages have to wait for a reply, which only the task sends.
    fn can_send_while_parked(&self) -> bool {
        self.bundle.is_none() && self.unreported_gap.is_none()
    }

    fn store_handshake(&mut self, text: &str) -> bool {
        if !has_handshake(text) {
            return false;
        }
        self.handshake = Some(text.into());
        true
    }

    fn answer_held_on_close(&mut self, code: CloseCode, attachment: &Attachment, frames: &mut Frames<'_>) {
        let Some((held, _)) = self.dialect.release() else { return };
        frames.text(&final_reply(held.reply(), code, attachment).to_array());
    }
}

fn write_text(parts: &[&[u8]], frames: &mut Frames<'_>) {
    write_array(parts, frames.text_of(array_len(parts)));
}

fn has_handshake(text: &str) -> bool {
    let is_handshake = |text: &&str| {
        ClientMessage::parse(text).is_ok_and(|message| message.kind() == MessageKind::Handshake)
    };
    // Run the cheap test first: hardly any text message contains a handshake.
    text.contains("handshake") && split_messages(text).is_ok_and(|texts| texts.iter().any(is_handshake))
}
