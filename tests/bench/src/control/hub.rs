//! The control's only channel: its messages, its subscribers, and the commands that clients send.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde_json::value::RawValue;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::messages::{self, ControlCommand};
use crate::pinger::ConnectionSignal;

/// Messages are numbered from 1 and never dropped, because there are few. A reader compares its cursor with
/// `published`, and takes the lock only if there is a new message.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    published: AtomicUsize,
    messages: RwLock<Vec<Utf8Bytes>>,
    subscribers: Mutex<Vec<Arc<ConnectionSignal>>>,
}

/// Outcome of a client's command.
#[derive(Debug)]
pub(crate) enum HubOutcome {
    /// The client receives the messages that follow the first `cursor` ones.
    Subscribed {
        cursor: usize,
        reply: String,
    },
    Published {
        reply: String,
    },
    /// The text is not a command that the control supports.
    None,
}

impl Hub {
    pub(crate) fn carry_out(&self, text: &str, bell: &Arc<ConnectionSignal>) -> HubOutcome {
        match ControlCommand::read(text) {
            Some(ControlCommand::Subscribe { id, channel }) => {
                let cursor = self.published();
                self.subscribers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(bell));
                HubOutcome::Subscribed { cursor, reply: messages::subscribed(id, channel, cursor) }
            }
            Some(ControlCommand::Publish { id, channel, data }) => {
                let offset = self.publish(channel, data);
                HubOutcome::Published { reply: messages::published(id, offset) }
            }
            None => HubOutcome::None,
        }
    }

    pub(crate) fn published(&self) -> usize {
        self.published.load(Ordering::Acquire)
    }

    /// Returns the message after the cursor.
    pub(crate) fn next(&self, cursor: usize) -> Option<Utf8Bytes> {
        self.messages.read().unwrap_or_else(PoisonError::into_inner).get(cursor).cloned()
    }

    /// Encodes the text once for all subscribers, wakes them, and drops those whose connections are closed.
    /// Returns the message's offset.
    fn publish(&self, channel: &str, data: &RawValue) -> usize {
        let offset = {
            let mut messages = self.messages.write().unwrap_or_else(PoisonError::into_inner);
            let offset = messages.len() + 1;
            let text = messages::message(offset, channel, data);
            messages.push(text.into());
            self.published.store(offset, Ordering::Release);
            offset
        };
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner).retain(|bell| bell.wake());
        offset
    }
}
