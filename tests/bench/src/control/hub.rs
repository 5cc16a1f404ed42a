//! The one channel: what was published, who is to have it, and the commands by which clients say so.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde_json::value::RawValue;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::pinger::Bell;
use crate::words::{self, Command};

/// Messages are numbered from 1 and kept for good: they are few. A reader compares its cursor with `published`, and
/// takes the lock only when there is something new.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    published: AtomicUsize,
    messages: RwLock<Vec<Utf8Bytes>>,
    subscribers: Mutex<Vec<Arc<Bell>>>,
}

/// What a client asked for, as the hub took it.
#[derive(Debug)]
pub(crate) enum Answer {
    /// From now on the client is to have what comes after this many messages.
    Subscribed {
        cursor: usize,
        reply: String,
    },
    Published {
        reply: String,
    },
    /// Not a command that the control knows.
    None,
}

impl Hub {
    pub(crate) fn carry_out(&self, text: &str, bell: &Arc<Bell>) -> Answer {
        match Command::read(text) {
            Some(Command::Subscribe { id, channel }) => {
                let cursor = self.published();
                self.subscribers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(bell));
                Answer::Subscribed { cursor, reply: words::subscribed(id, channel, cursor) }
            }
            Some(Command::Publish { id, channel, data }) => {
                let offset = self.publish(channel, data);
                Answer::Published { reply: words::published(id, offset) }
            }
            None => Answer::None,
        }
    }

    pub(crate) fn published(&self) -> usize {
        self.published.load(Ordering::Acquire)
    }

    /// The message after the cursor.
    pub(crate) fn next(&self, cursor: usize) -> Option<Utf8Bytes> {
        self.messages.read().unwrap_or_else(PoisonError::into_inner).get(cursor).cloned()
    }

    /// Prepares the text once, for all, and wakes every subscriber that is still there.
    fn publish(&self, channel: &str, data: &RawValue) -> usize {
        let offset = {
            let mut messages = self.messages.write().unwrap_or_else(PoisonError::into_inner);
            let offset = messages.len() + 1;
            let text = words::message(offset, channel, data);
            messages.push(text.into());
            self.published.store(offset, Ordering::Release);
            offset
        };
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner).retain(|bell| bell.wake());
        offset
    }
}
