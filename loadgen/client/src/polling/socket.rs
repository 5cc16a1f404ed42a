//! Polls over a WebSocket. While one is held, other messages are exchanged on the same socket.

use std::ops::ControlFlow;
use std::task::{Context, Poll, ready};

use tokio::time::Instant;

use super::SessionState;
use super::dialect::OK;
use crate::transport::Request;
use crate::transport::websocket::{ConnectionEnd, Incoming, Opcode, WebSocket, write_frame};

#[derive(Debug)]
pub(crate) struct SocketWire {
    pub(super) socket: WebSocket,
    /// When the pending poll was sent.
    polled_at: Option<Instant>,
}

impl SocketWire {
    pub(crate) fn new(socket: WebSocket) -> Self {
        Self { socket, polled_at: None }
    }

    pub(super) fn advance(
        &mut self,
        context: &mut Context<'_>,
        state: &mut SessionState,
    ) -> Poll<Result<(), ConnectionEnd>> {
        if !state.unsent.is_empty() {
            self.queue(&state.commands());
        }
        if self.polled_at.is_none() && !state.is_delayed(context) {
            self.polled_at = Some(Instant::now());
            self.queue(&state.dialect.poll());
        }
        let Self { socket, polled_at } = self;
        let is_answer = ready!(socket.poll_each(context, &mut |incoming| match incoming {
            Incoming::Text(text) => {
                let polled_for = polled_at.map(|at| at.elapsed());
                ControlFlow::Break(state.on_response(OK, text.as_bytes(), polled_for))
            }
            _ => ControlFlow::Continue(()),
        }))??;
        polled_at.take_if(|_| is_answer);
        Poll::Ready(Ok(()))
    }

    fn queue(&mut self, request: &Request) {
        write_frame(self.socket.unwritten(), Opcode::Text, request.body.as_bytes());
    }
}
