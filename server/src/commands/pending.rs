//! Commands that are waiting for an engine, for the backend, or for earlier commands.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use encke_broker::engine::EngineResponse;
use encke_core::dialect::{Command, CommandError, CommandRequest, Success};
use futures_util::FutureExt;

use super::CommandOutcome;

/// Maximum number of commands in flight on one connection. While that many are in flight, nothing more is
/// read.
pub(super) const MAX_IN_FLIGHT: usize = 64;

/// Commands without responses, in order of arrival.
pub(super) struct PendingCommands<I> {
    /// Commands whose outcome is pending, and finished commands that must be responded to later to keep the
    /// order.
    pub(super) in_flight: VecDeque<(Option<I>, EngineResponse<CommandOutcome>)>,
    kind: CommandKind,
    /// Commands that start once nothing is in flight. At most the commands of one text, since nothing is read
    /// while a command is deferred.
    pub(super) deferred: VecDeque<CommandRequest<'static, I>>,
}

/// Kind of a command. Commands of the same kind may be in flight at the same time. A publish and a subscribe
/// may not: whether the client receives the published message depends on their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandKind {
    Publish,
    Subscribe,
    Call,
    /// A command that is never in flight together with another one.
    Other,
}

impl CommandKind {
    pub(super) fn of(command: &Command<'_>) -> Self {
        match command {
            Command::Publish { .. } => Self::Publish,
            Command::Subscribe { .. } => Self::Subscribe,
            Command::Call { .. } => Self::Call,
            _ => Self::Other,
        }
    }
}

impl<I> PendingCommands<I> {
    pub(super) fn new(kind: CommandKind) -> Self {
        Self { in_flight: VecDeque::new(), kind, deferred: VecDeque::new() }
    }

    /// Whether a command of this kind may start now.
    pub(super) fn admits(&self, kind: CommandKind) -> bool {
        kind == self.kind && kind != CommandKind::Other && self.has_room()
    }

    /// Whether more may be read from the connection.
    pub(super) fn has_room(&self) -> bool {
        self.deferred.is_empty() && self.in_flight.len() < MAX_IN_FLIGHT
    }

    /// Adds a command that has started.
    pub(super) fn add_started(&mut self, id: Option<I>, response: EngineResponse<CommandOutcome>) {
        debug_assert!(self.deferred.is_empty(), "deferred commands come first");
        self.in_flight.push_back((id, response));
    }

    /// Adds a command that will start later.
    pub(super) fn defer(&mut self, id: Option<I>, command: Result<Command<'static>, CommandError>) {
        self.deferred.push_back(CommandRequest { id, command });
    }

    /// Adds a command that was carried out or refused immediately. Its response comes after all earlier ones.
    pub(super) fn add_finished(&mut self, id: Option<I>, outcome: Result<(), CommandError>) {
        if self.deferred.is_empty() {
            self.add_started(id, EngineResponse::Ready(outcome.map(|()| Success::Done)));
        } else {
            self.defer(id, outcome.map(|()| Command::Noop));
        }
    }

    /// Polls for the outcome of the first command.
    pub(super) fn poll_first(&mut self, task: &mut Context<'_>) -> Poll<Option<(Option<I>, CommandOutcome)>> {
        let Some((id, response)) = self.in_flight.pop_front() else { return Poll::Ready(None) };
        let outcome = match response {
            EngineResponse::Ready(outcome) => outcome,
            EngineResponse::Pending(mut later) => match later.poll_unpin(task) {
                Poll::Ready(outcome) => outcome,
                Poll::Pending => {
                    self.in_flight.push_front((id, EngineResponse::Pending(later)));
                    return Poll::Pending;
                }
            },
        };
        Poll::Ready(Some((id, outcome)))
    }
}
