use std::task::{self, Poll};

use encke_broker::channel::LogMessage;
use encke_core::Timestamp;
use encke_core::close::{CloseCode, SuspendReason};
use encke_core::dialect::{Dialect, DialectName, ServerEvent, pong_seq};
use encke_core::frame::{ClientFrame, Fragments, FrameError, decode, lone_pong};
use encke_core::session::{ConnectionInput, Heartbeat};

use super::dialect::WebSocketDialect;
use super::frame::Frames;
use crate::client::{Services, goaway};
use crate::commands::{CommandHandler, Commands};
use crate::connection::{End, Ending, Handled, Link, Protocol, Socket};
use crate::session::{
    Channel, DeliveryBatch, DeliveryWriter, SessionCell, SessionOutbox, Transport, take_batch,
};

/// A WebSocket with a session.
pub(crate) struct WebSocket<D: WebSocketDialect, H> {
    pub(crate) dialect: D,
    /// State that belongs to the socket rather than to one of its sessions.
    pub(crate) owner: H,
}

impl<D: WebSocketDialect, H> WebSocket<D, H> {
    /// Executes the commands in a text message.
    pub(crate) fn run_commands(&mut self, text: &str, link: &mut Link<'_, Commands<D::Dialect>>) {
        self.handler(link).handle_text(text);
    }

    fn handler<'a>(
        &'a mut self,
        Link { attachment, commands, backlog, out, .. }: &'a mut Link<'_, Commands<D::Dialect>>,
    ) -> CommandHandler<'a, D::Dialect, Frames<'a>> {
        let (context, out) = ((*attachment).into(), Frames(&mut out.bytes));
        CommandHandler { context, commands, backlog, dialect: self.dialect.dialect(), out }
    }

    /// Returns the session's input for a pong with this seq.
    fn pong_input(&self, seq: u64) -> ConnectionInput {
        match self.dialect.acknowledgeable_seq(u64::MAX) <= seq {
            true => ConnectionInput::LastPongFrame { seq },
            false => ConnectionInput::PongFrame { seq },
        }
    }

    fn handle(&mut self, frame: ClientFrame<'_>, link: &mut Link<'_, Commands<D::Dialect>>) -> Option<End> {
        match frame {
            ClientFrame::Text(text) => {
                *link.has_input = true;
                if self.dialect.store_handshake(&text) {
                    return Some((SuspendReason::ConnectionLost, Ending::Released));
                }
                self.run_commands(&text, link);
            }
            ClientFrame::Pong(payload) => {
                if let Some(seq) = pong_seq(payload) {
                    link.backlog.acknowledged();
                    link.attachment.notify_session(self.pong_input(seq));
                }
            }
            ClientFrame::Ping(payload) => {
                *link.has_input = true;
                Frames(&mut link.out.bytes).pong(payload);
            }
            ClientFrame::Fragment => *link.has_input = true,
            ClientFrame::Binary => {
                return Some((SuspendReason::BadFrame, Ending::Close(CloseCode::UnsupportedData)));
            }
            ClientFrame::Close(code) => return Some((SuspendReason::PeerClosed, Ending::ClosedByPeer(code))),
        }
        None
    }
}

impl<S: Socket, D: WebSocketDialect, H: Send + 'static> Protocol<S> for WebSocket<D, H> {
    type Commands = Commands<D::Dialect>;

    const TRANSPORT: Transport = Transport::WebSocket;
    const INPUTS_PER_POLL: u16 = D::FRAMES_PER_POLL;
    const TOO_SLOW: Ending = Ending::Close(CloseCode::SlowConsumer);

    fn dialect(&self) -> DialectName {
        D::Dialect::NAME
    }

    /// The rate limit applies to the session, across its connections.
    fn next_input_at(&self, session: &SessionCell) -> Timestamp {
        session.frames.next_at()
    }

    fn can_receive(commands: &Commands<D::Dialect>) -> bool {
        !commands.has_pending() || D::READS_WHILE_COMMANDS_PENDING && commands.has_room()
    }

    fn receive(
        &mut self,
        bytes: &mut [u8],
        fragments: &mut Fragments,
        link: &mut Link<'_, Commands<D::Dialect>>,
    ) -> Handled {
        let services = &link.attachment.services;
        match decode(bytes, fragments, services.settings.max_message) {
            Ok(Some((frame, length))) => {
                let (session, mailbox) = (&link.attachment.session, &link.attachment.mailbox);
                let limit = services.settings.frames_per_second;
                session.frames.count_input(1, limit, mailbox.received_at());
                Handled { bytes: length, end: self.handle(frame, link) }
            }
            Ok(None) => Handled { bytes: 0, end: None },
            Err(error) => {
                link.attachment.log_failure(&error);
                let end = (SuspendReason::BadFrame, Ending::Close(close_code(error)));
                Handled { bytes: 0, end: Some(end) }
            }
        }
    }

    fn ping_answer(&self, bytes: &[u8]) -> Option<ConnectionInput> {
        let seq = lone_pong::<8>(bytes).and_then(|payload| pong_seq(&payload))?;
        Some(self.pong_input(seq))
    }

    fn poll_commands(
        &mut self,
        task: &mut task::Context<'_>,
        link: &mut Link<'_, Commands<D::Dialect>>,
    ) -> Option<Poll<()>> {
        self.handler(link).poll_pending(task)
    }

    fn has_pending(commands: &Commands<D::Dialect>) -> bool {
        commands.has_pending()
    }

    fn write_ping(&mut self, sent: u64, out: &mut Vec<u8>) -> u64 {
        let seq = self.dialect.acknowledgeable_seq(sent);
        let (dialect, mut frames) = (self.dialect.dialect(), Frames(out));
        match dialect.heartbeat() {
            Heartbeat::Frame => frames.ping(seq),
            Heartbeat::Message => dialect.notify(&ServerEvent::Ping { seq }, &mut frames),
        }
        seq
    }

    fn can_send(&self) -> bool {
        self.dialect.can_send_messages()
    }

    fn can_send_while_parked(&self) -> bool {
        self.dialect.can_send_while_parked()
    }

    /// Input may be a disconnect, after which the client gets its bundled messages on its next connection.
    fn receives_first(&self) -> bool {
        self.dialect.bundles_messages()
    }

    fn take_batch(
        &mut self,
        services: &Services,
        _: &SessionCell,
        outbox: &mut SessionOutbox,
        out: &mut Vec<u8>,
    ) -> DeliveryBatch {
        take_batch(
            &services.sessions.subscriptions,
            outbox,
            &mut OutgoingFrames { dialect: &mut self.dialect, frames: Frames(out) },
        )
    }

    fn has_answer(&self) -> bool {
        self.dialect.has_buffered()
    }

    fn answer(&mut self, link: &mut Link<'_, Commands<D::Dialect>>) {
        // A late signal may be for an earlier hold, which messages have ended. The client's next request is held now,
        // and must not be answered.
        if !self.dialect.has_buffered() && link.attachment.session.is_holding() {
            return;
        }
        if self.dialect.answer_held(link.attachment, &mut Frames(&mut link.out.bytes)) {
            link.attachment.notify_session(ConnectionInput::Released);
        }
    }

    fn released(&mut self, code: CloseCode, link: &mut Link<'_, Commands<D::Dialect>>) -> Result<(), Ending> {
        if code == CloseCode::TryAgainLater {
            // The client's partial message was evicted. The session does not know of this yet.
            link.attachment.notify_session(ConnectionInput::Ended(SuspendReason::Unfinished));
        } else {
            self.dialect.answer_held_on_close(code, link.attachment, &mut Frames(&mut link.out.bytes));
        }
        Err(Ending::Close(code))
    }

    fn write_close_reply(code: Option<u16>, out: &mut Vec<u8>) {
        Frames(out).close_reply(code);
    }

    fn write_farewell(code: CloseCode, services: &Services, out: &mut Vec<u8>) {
        let mut frames = Frames(out);
        // Say when to reconnect, if the client has to wait.
        let is_spread = matches!(
            code,
            CloseCode::Draining | CloseCode::Moved | CloseCode::Overloaded | CloseCode::BackendFailed
        );
        if is_spread {
            D::Dialect::default().notify(&goaway(code, &services.entropy), &mut frames);
        }
        frames.close(code);
    }
}

/// Writes a session's output as frames.
pub(super) struct OutgoingFrames<'a, D> {
    pub(super) dialect: &'a mut D,
    pub(super) frames: Frames<'a>,
}

impl<D: WebSocketDialect> DeliveryWriter for OutgoingFrames<'_, D> {
    fn len(&self) -> usize {
        self.frames.0.len() + self.dialect.buffered_bytes()
    }

    fn message(&mut self, seq: u64, channel: &Channel, offset: u64, message: &LogMessage) {
        self.dialect.message(seq, channel, offset, message, &mut self.frames);
    }

    fn gap(&mut self, seq: u64, _: &Channel, gap: &ServerEvent<'_>, _: Option<u64>) {
        self.dialect.gap(seq, gap, &mut self.frames);
    }

    fn notice(&mut self, sent: u64, notice: &ServerEvent<'_>) {
        self.dialect.notice(sent, notice, &mut self.frames);
    }
}

pub(super) fn close_code(error: FrameError) -> CloseCode {
    match error {
        FrameError::Protocol(_) => CloseCode::BadFrame,
        FrameError::TooBig => CloseCode::TooBig,
        FrameError::InvalidUtf8 => CloseCode::InvalidPayload,
    }
}
