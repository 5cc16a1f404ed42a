//! Parking and unparking.

use std::task::Poll;

use tokio_tungstenite::WebSocketStream;

use super::{Paused, WebSocketConnection};
use crate::client::Attachment;
use crate::parking::ParkBackoff;
use crate::transport::Socket;
use crate::transport::parked::ConnectionParts;
use crate::transport::pending_write::PendingWrite;
use crate::transport::websocket::dialect::WebSocketDialect;
use crate::transport::websocket::frame_limiter::FrameLimiter;

impl<S: Socket, D: WebSocketDialect> WebSocketConnection<S, D> {
    /// Restores a connection that was parked. `backoff` decides how soon it may be parked again.
    pub(in crate::transport::websocket) fn unparked(
        socket: WebSocketStream<FrameLimiter<S>>,
        attachment: Attachment,
        dialect: D,
        (out, ping): (PendingWrite, Option<u64>),
        backoff: ParkBackoff,
    ) -> Self {
        Self { out, ping, backoff, ..Self::bare(socket, attachment, dialect) }
    }

    /// Whether the connection may be parked: all input is handled, the kernel has accepted all output, and
    /// everything that remains can be done without a task.
    pub(super) fn is_idle(&self) -> bool {
        let inbox = self.socket.get_ref();
        let has_backlog = self.backlog.has_more && self.dialect.can_send_messages();
        !has_backlog
            && inbox.is_between_messages()
            && inbox.socket().can_park()
            && self.out.is_empty()
            && !self.answer_unflushed
            && self.ping.is_none()
            && !self.is_due
            && !self.hold.is_held()
            && !self.commands.has_pending()
            && self.deferred_end.is_none()
    }

    /// Ready when the client has been silent for long enough, and still is.
    pub(super) fn poll_park(&mut self) -> Poll<Paused> {
        let Self { socket, attachment, park_timer, backoff, has_input, .. } = self;
        park_timer.poll(socket.get_ref().socket(), attachment, backoff, has_input).map(|()| Paused::Park)
    }

    /// Drops everything that a parked connection does not need. The last value is whether messages are
    /// pending that have to wait for an acknowledgement.
    pub(in crate::transport::websocket) fn into_parked_parts(self) -> (ConnectionParts<S>, D, bool) {
        let Self { socket, attachment, dialect, backlog, backoff, .. } = self;
        let socket = socket.into_inner().into_socket();
        (ConnectionParts::new(socket, attachment, backoff), dialect, backlog.awaits_ack)
    }
}
