//! What a dialect makes of a WebSocket, beyond commands and replies.

use encke_core::close::CloseCode;
use encke_core::dialect::json::Json;
use encke_core::dialect::{Dialect, Event};
use encke_core::encodings::Cached;

use super::frame::Frames;
use super::inbox;
use crate::channel::LogMessage;
use crate::client::Attachment;
use crate::session::Channel;
use crate::transport::by_pattern::by_pattern;

/// A dialect over a WebSocket.
pub(crate) trait Spoken: Dialect {
    /// Frames that a connection may read before others get their turn.
    const TURN_FRAMES: u16 = inbox::TURN_FRAMES;

    /// Whether more is read from a connection while an engine has not answered all that was asked on it.
    const READS_WHILE_COMMANDS_WAIT: bool = true;

    /// Whether messages are sent now. Otherwise they wait for the client to ask for them.
    fn takes_messages(&self) -> bool {
        true
    }

    /// Writes a message of this channel's log, or of this pattern's, under its seq; or keeps it for the answer to the request that is
    /// held.
    fn message(
        &mut self,
        seq: u64,
        channel: &Channel,
        offset: u64,
        message: &LogMessage,
        frames: &mut Frames<'_>,
    );

    /// Tells of a gap, now or with that answer.
    fn gap(&mut self, _seq: u64, gap: &Event<'_>, frames: &mut Frames<'_>) {
        self.notify(gap, frames);
    }

    /// Tells that a subscription has begun or ended, now or with that answer. `sent` is the last seq before.
    fn notice(&mut self, _sent: u64, notice: &Event<'_>, frames: &mut Frames<'_>) {
        self.notify(notice, frames);
    }

    /// The bytes that are kept for that answer.
    fn kept(&self) -> usize {
        0
    }

    /// Whether there is something to answer with.
    fn has_kept(&self) -> bool {
        false
    }

    /// Of the seqs up to this one, those that a pong acknowledges: what is told by an answer, the client has only with that.
    fn told(&self, sent: u64) -> u64 {
        sent
    }

    /// Answers the request that is held. Returns whether there was one.
    fn answer(&mut self, _attachment: &Attachment, _frames: &mut Frames<'_>) -> bool {
        false
    }

    /// Whether the messages on their way to the client wait for an answer, so that one that is leaving need not get them twice.
    fn rides(&self) -> bool {
        false
    }

    /// Whether messages are sent while the connection is at rest. Otherwise they wake it.
    fn sends_at_rest(&self) -> bool {
        true
    }

    /// Whether a text opens another session on this connection. It is kept.
    fn opens_anew(&mut self, _text: &str) -> bool {
        false
    }

    /// The text that was kept.
    fn take_opening(&mut self) -> Option<String> {
        None
    }

    /// The session lets go of the connection: the request that is held is answered.
    fn farewell(&mut self, _code: CloseCode, _attachment: &Attachment, _frames: &mut Frames<'_>) {}
}

impl Spoken for Json {
    fn message(
        &mut self,
        seq: u64,
        channel: &Channel,
        offset: u64,
        message: &LogMessage,
        frames: &mut Frames<'_>,
    ) {
        let by = by_pattern::<Self>(channel, offset, message);
        let message = Self::of(message.encodings());
        message.write_with(seq, by, frames.text_of(message.len_with(seq, by)));
    }
}
