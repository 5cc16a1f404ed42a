//! Long-polling: one connection for the poll that is held, and, if needed, a second connection for commands
//! sent while it is held.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::SessionState;
use crate::transport::websocket::ConnectionEnd;
use crate::transport::{Endpoint, HttpClient, Stream};

#[derive(Debug)]
pub(crate) struct HttpWire {
    poller: HttpClient,
    /// Whether the request that is pending on the first connection is a poll. Otherwise it sends commands.
    is_polling: bool,
    /// Second connection, which sends commands while a poll is held.
    commander: Option<Box<HttpClient>>,
}

impl HttpWire {
    /// `headers` are header lines for the token, if there is one.
    pub(crate) fn new(stream: Stream, endpoint: &Arc<Endpoint>, headers: &str) -> Self {
        let poller = HttpClient::over(stream, endpoint, headers.into());
        Self { poller, is_polling: false, commander: None }
    }

    /// Returns whether the response to commands is pending.
    pub(super) fn awaits_reply(&self) -> bool {
        self.commander.as_ref().is_some_and(|client| client.is_pending())
            || (!self.is_polling && self.poller.is_pending())
    }

    pub(super) fn advance(
        &mut self,
        context: &mut Context<'_>,
        state: &mut SessionState,
    ) -> Poll<Result<(), ConnectionEnd>> {
        let polls = self.advance_polls(context, state)?;
        let commands = self.advance_commands(context, state)?;
        if polls.is_ready() { polls.map(Ok) } else { commands.map(Ok) }
    }

    fn advance_polls(
        &mut self,
        context: &mut Context<'_>,
        state: &mut SessionState,
    ) -> Poll<Result<(), ConnectionEnd>> {
        if !self.poller.is_pending() && state.unsent.is_empty() && state.is_delayed(context) {
            return Poll::Pending;
        }
        let response = ready!(self.poller.poll_exchange(context, || {
            self.is_polling = state.unsent.is_empty();
            if self.is_polling { state.dialect.poll() } else { state.commands() }
        }))?;
        let polled_for = self.is_polling.then_some(response.waited);
        state.on_response(response.status, &response.body, polled_for)?;
        Poll::Ready(Ok(()))
    }

    fn advance_commands(
        &mut self,
        context: &mut Context<'_>,
        state: &mut SessionState,
    ) -> Poll<Result<(), ConnectionEnd>> {
        let is_needed = !state.unsent.is_empty() && self.is_polling && self.poller.is_pending();
        if is_needed && self.commander.is_none() {
            self.commander = Some(Box::new(self.poller.second()));
        }
        let Some(client) = &mut self.commander else { return Poll::Pending };
        if !is_needed && !client.is_pending() {
            // Drop the connection once the server closes it: servers do not keep idle connections for long.
            ready!(client.poll_end(context));
            self.commander = None;
            return Poll::Ready(Ok(()));
        }
        let response = ready!(client.poll_exchange(context, || state.commands()))?;
        state.on_response(response.status, &response.body, None)?;
        Poll::Ready(Ok(()))
    }
}
