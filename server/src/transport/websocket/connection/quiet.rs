//! To rest and back.

use std::task::Poll;

use tokio_tungstenite::WebSocketStream;

use super::{Connection, Paused};
use crate::client::Attachment;
use crate::rest::Pace;
use crate::transport::Socket;
use crate::transport::at_rest::Awake;
use crate::transport::unwritten::Unwritten;
use crate::transport::websocket::inbox::Inbox;
use crate::transport::websocket::spoken::Spoken;

impl<S: Socket, D: Spoken> Connection<S, D> {
    /// A connection that has been at rest. `pace` says how soon it may be again.
    pub(in crate::transport::websocket) fn woken(
        socket: WebSocketStream<Inbox<S>>,
        attachment: Attachment,
        dialect: D,
        (out, ping): (Unwritten, Option<u64>),
        pace: Pace,
    ) -> Self {
        Self { out, ping, pace, ..Self::begun(socket, attachment, dialect) }
    }

    /// Whether there is nothing but what can be done at rest: what was received is done, and what was to be sent is in the kernel.
    pub(super) fn is_quiet(&self) -> bool {
        let inbox = self.socket.get_ref();
        let has_backlog = self.backlog.more && self.dialect.takes_messages();
        !has_backlog
            && inbox.is_between_messages()
            && inbox.socket().can_rest()
            && self.out.is_empty()
            && !self.answer_unflushed
            && self.ping.is_none()
            && !self.is_due
            && !self.hold.is_held()
            && !self.commands.are_waiting()
            && self.last.is_none()
    }

    /// Ready when it has been silent for long enough, and still is.
    pub(super) fn poll_rest(&mut self) -> Poll<Paused> {
        let Self { socket, attachment, until_rest, pace, spoke, .. } = self;
        until_rest.poll(socket.get_ref().socket(), attachment, pace, spoke).map(|()| Paused::Rest)
    }

    /// Gives up all that a connection at rest has no use for. The last says whether there is something to send, but nothing is sent until
    /// something is acknowledged.
    pub(in crate::transport::websocket) fn into_quiet(self) -> (Awake<S>, D, bool) {
        let Self { socket, attachment, dialect, backlog, pace, .. } = self;
        let socket = socket.into_inner().into_socket();
        (Awake::new(socket, attachment, pace), dialect, backlog.until_acknowledged)
    }
}
