//! Commands that wait for an engine or the backend, or for those before them.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use encke_core::dialect::{Command, CommandError, Request, Success};
use futures_util::FutureExt;

use super::exchange::Outcome;
use crate::engine::Answer;

/// Commands of one connection that are under way. Beyond these, nothing is read from it.
pub(super) const MOST_IN_FLIGHT: usize = 64;

/// Commands without responses yet, in the order in which they came.
pub(super) struct Waiting<I> {
    /// What was asked of the engine or the backend, and what was done or refused since.
    in_flight: VecDeque<(Option<I>, Answer<Outcome>)>,
    kind: Kind,
    /// Commands that begin once nothing is in flight: at most as many as one text has, since none is read while there are any.
    deferred: VecDeque<Request<'static, I>>,
}

/// What commands have in common that may be under way at the same time. A publish before or after a subscribe is heard or not by the order of
/// the two, so one waits for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Publish,
    Subscribe,
    Call,
    /// Goes with no other.
    Other,
}

impl Kind {
    pub(super) fn of(command: &Command<'_>) -> Self {
        match command {
            Command::Publish { .. } => Self::Publish,
            Command::Subscribe { .. } => Self::Subscribe,
            Command::Call { .. } => Self::Call,
            _ => Self::Other,
        }
    }
}

impl<I> Waiting<I> {
    pub(super) fn new(kind: Kind) -> Self {
        Self { in_flight: VecDeque::new(), kind, deferred: VecDeque::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.in_flight.len() + self.deferred.len()
    }

    /// Whether a command may begin now.
    pub(super) fn admits(&self, kind: Kind) -> bool {
        kind == self.kind && kind != Kind::Other && self.has_room()
    }

    /// Whether more may be read from the connection.
    pub(super) fn has_room(&self) -> bool {
        self.deferred.is_empty() && self.in_flight.len() < MOST_IN_FLIGHT
    }

    /// A command has begun.
    pub(super) fn began(&mut self, id: Option<I>, answer: Answer<Outcome>) {
        debug_assert!(self.deferred.is_empty(), "those that were deferred come first");
        self.in_flight.push_back((id, answer));
    }

    /// A command begins later.
    pub(super) fn defer(&mut self, id: Option<I>, command: Result<Command<'static>, CommandError>) {
        self.deferred.push_back(Request { id, command });
    }

    /// A command was done, or refused, at once: its response comes after all others.
    pub(super) fn done(&mut self, id: Option<I>, outcome: Result<(), CommandError>) {
        if self.deferred.is_empty() {
            self.began(id, Answer::Ready(outcome.map(|()| Success::Done)));
        } else {
            self.defer(id, outcome.map(|()| Command::Nothing));
        }
    }

    pub(super) fn into_deferred(self) -> VecDeque<Request<'static, I>> {
        self.deferred
    }

    pub(super) fn is_anything_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// The outcome of the first command, once it is there.
    pub(super) fn poll_first(&mut self, task: &mut Context<'_>) -> Poll<Option<(Option<I>, Outcome)>> {
        let Some((id, answer)) = self.in_flight.pop_front() else { return Poll::Ready(None) };
        let outcome = match answer {
            Answer::Ready(outcome) => outcome,
            Answer::Later(mut later) => match later.poll_unpin(task) {
                Poll::Ready(outcome) => outcome,
                Poll::Pending => {
                    self.in_flight.push_front((id, Answer::Later(later)));
                    return Poll::Pending;
                }
            },
        };
        Poll::Ready(Some((id, outcome)))
    }
}
