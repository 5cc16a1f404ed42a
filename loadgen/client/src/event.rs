//! Events on a connection, and those that have not been delivered yet.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientEvent<'a> {
    /// A heartbeat arrived. If it needs an answer, the answer has already been sent, unless the connection is
    /// muted.
    Ping(&'a [u8]),
    /// Answer to a ping that this client sent.
    Pong(&'a [u8]),
    Text(&'a str),
    /// A poll was answered without messages, this long after it was sent. This is the heartbeat of
    /// long-polling.
    EmptyPoll(Duration),
    /// Id of the event that follows. A client can resume from it.
    Id(&'a str),
}

/// Events that have been received and not been delivered yet.
#[derive(Debug, Default)]
pub(crate) struct EventQueue(VecDeque<QueuedEvent>);

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum QueuedEvent {
    Ping,
    Text(String),
    EmptyPoll(Duration),
    Id(String),
}

impl EventQueue {
    pub(crate) fn push(&mut self, event: QueuedEvent) {
        self.0.push_back(event);
    }

    /// Delivers the events, until `on_event` breaks. Frees the queue's memory, because a waiting client keeps
    /// no buffer.
    pub(crate) fn deliver<T>(
        &mut self,
        on_event: &mut impl FnMut(ClientEvent<'_>) -> ControlFlow<T>,
    ) -> ControlFlow<T> {
        while let Some(event) = self.0.pop_front() {
            on_event(match &event {
                QueuedEvent::Ping => ClientEvent::Ping(&[]),
                QueuedEvent::Text(text) => ClientEvent::Text(text),
                QueuedEvent::EmptyPoll(time) => ClientEvent::EmptyPoll(*time),
                QueuedEvent::Id(id) => ClientEvent::Id(id),
            })?;
        }
        *self = Self::default();
        ControlFlow::Continue(())
    }
}
