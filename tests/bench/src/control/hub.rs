//! The one channel: what was published, who is to have it, and the commands by which clients say so.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::pinger::Bell;

/// As long as the server's.
const EPOCH: &str = "AAAAAAAAAAAAAAAAAAAAAA";

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

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
struct Command<'a> {
    id: u64,
    #[serde(borrow)]
    subscribe: Option<Subscribe<'a>>,
    #[serde(borrow)]
    publish: Option<Publish<'a>>,
}

#[derive(Deserialize)]
struct Subscribe<'a> {
    channel: &'a str,
}

#[derive(Deserialize)]
struct Publish<'a> {
    channel: &'a str,
    #[serde(borrow)]
    data: &'a RawValue,
}

impl Hub {
    pub(crate) fn carry_out(&self, text: &str, bell: &Arc<Bell>) -> Answer {
        match serde_json::from_str(text) {
            Ok(Command { id, subscribe: Some(Subscribe { channel }), .. }) => {
                let cursor = self.published();
                self.subscribers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(bell));
                let reply = format!(
                    r#"{{"reply":{{"id":{id},"ok":{{"channel":"{channel}","epoch":"{EPOCH}","offset":{cursor}}}}}}}"#
                );
                Answer::Subscribed { cursor, reply }
            }
            Ok(Command { id, publish: Some(Publish { channel, data }), .. }) => {
                let offset = self.publish(channel, data.get());
                let reply =
                    format!(r#"{{"reply":{{"id":{id},"ok":{{"offset":{offset},"epoch":"{EPOCH}"}}}}}}"#);
                Answer::Published { reply }
            }
            Ok(_) | Err(_) => Answer::None,
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
    fn publish(&self, channel: &str, data: &str) -> usize {
        let offset = {
            let mut messages = self.messages.write().unwrap_or_else(PoisonError::into_inner);
            let offset = messages.len() + 1;
            let text = format!(
                r#"{{"message":{{"seq":{offset},"channel":"{channel}","offset":{offset},"data":{data}}}}}"#
            );
            messages.push(text.into());
            self.published.store(offset, Ordering::Release);
            offset
        };
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner).retain(|bell| bell.wake());
        offset
    }
}
