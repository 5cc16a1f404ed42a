//! Behavior of a dialect on a WebSocket, beyond commands and replies.

use encke_broker::channel::LogMessage;
use encke_core::close::CloseCode;
use encke_core::dialect::json::Json;
use encke_core::dialect::{Dialect, ServerEvent};

use super::super::pattern_origin::pattern_origin;
use super::frame::Frames;
use crate::client::Attachment;
use crate::session::Channel;

/// A dialect over a WebSocket, with the state of one connection.
pub(crate) trait WebSocketDialect: Send + 'static {
    type Dialect: Dialect;

    /// Maximum number of frames that a connection reads per poll, before other tasks run.
    const FRAMES_PER_POLL: u16 = 16;

    /// Whether to read more from a connection while an engine has yet to answer some of its commands.
    const READS_WHILE_COMMANDS_PENDING: bool = true;

    fn dialect(&mut self) -> &mut Self::Dialect;

    /// Whether messages may be sent now. If not, they wait until the client asks for them.
    fn can_send_messages(&self) -> bool {
        true
    }

    /// Writes a message with its seq, or buffers it for the reply to the held request. The message is from
    /// the log of `channel`, which may be a pattern.
    fn message(
        &mut self,
        seq: u64,
        channel: &Channel,
        offset: u64,
        message: &LogMessage,
        frames: &mut Frames<'_>,
    );

    /// Reports a gap, now or with the reply to the held request.
    fn gap(&mut self, _seq: u64, gap: &ServerEvent<'_>, frames: &mut Frames<'_>) {
        self.dialect().notify(gap, frames);
    }

    /// Reports that a subscription has begun or ended, now or with the reply to the held request. `sent` is
    /// the last seq before it.
    fn notice(&mut self, _sent: u64, notice: &ServerEvent<'_>, frames: &mut Frames<'_>) {
        self.dialect().notify(notice, frames);
    }

    /// Number of bytes buffered for the reply to the held request.
    fn buffered_bytes(&self) -> usize {
        0
    }

    /// Whether there is something to answer the held request with.
    fn has_buffered(&self) -> bool {
        false
    }

    /// Returns the highest seq, at most `sent`, that a pong may acknowledge. A client receives buffered
    /// messages and gaps only with the reply to its held request.
    fn acknowledgeable_seq(&self, sent: u64) -> u64 {
        sent
    }

    /// Answers the held request. Returns whether there was one.
    fn answer_held(&mut self, _attachment: &Attachment, _frames: &mut Frames<'_>) -> bool {
        false
    }

    /// Whether messages are bundled with replies, so that a client that disconnects need not receive them
    /// twice.
    fn bundles_messages(&self) -> bool {
        false
    }

    /// Whether messages are sent while the connection is parked. If not, they unpark it.
    fn can_send_while_parked(&self) -> bool {
        true
    }

    /// Stores a text message if it opens another session on this connection. Returns whether it does.
    fn store_handshake(&mut self, _text: &str) -> bool {
        false
    }

    /// Answers the held request when the session releases the connection.
    fn answer_held_on_close(&mut self, _code: CloseCode, _attachment: &Attachment, _frames: &mut Frames<'_>) {
    }
}

impl WebSocketDialect for Json {
    type Dialect = Self;

    fn dialect(&mut self) -> &mut Self {
        self
    }

    fn message(
        &mut self,
        seq: u64,
        channel: &Channel,
        offset: u64,
        message: &LogMessage,
        frames: &mut Frames<'_>,
    ) {
        let by = pattern_origin(channel, offset, message);
        let message = message.encoded();
        message.write_with(seq, by, frames.text_of(message.len_with(seq, by)));
    }
}
