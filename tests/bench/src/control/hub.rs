//! The hyper control's only channel: its messages, its subscribers, and the commands that clients send.

use std::sync::{Arc, Weak};

use encke_core::dialect::json::parse_command;
use encke_core::dialect::{Command, CommandRequest};
use parking_lot::{Mutex, RwLock};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::messages;
use crate::pinger::{ConnectionSignal, retain_open};

/// Messages are numbered from 1 and never dropped, because there are few.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    messages: RwLock<Vec<Utf8Bytes>>,
    subscribers: Mutex<Vec<Weak<ConnectionSignal>>>,
}

impl Hub {
    /// Carries out a command. Returns the reply; `None` if the control does not support the command. A
    /// subscriber's cursor is set to the number of messages that it does not receive.
    pub(crate) fn carry_out(
        &self,
        text: &str,
        signal: &Arc<ConnectionSignal>,
        cursor: &mut usize,
    ) -> Option<String> {
        match parse_command(text) {
            CommandRequest { id: Some(id), command: Ok(Command::Subscribe { channel, .. }) } => {
                *cursor = self.messages.read().len();
                self.subscribers.lock().push(Arc::downgrade(signal));
                Some(messages::subscribed(id, &channel, *cursor))
            }
            CommandRequest { id: Some(id), command: Ok(Command::Publish { channel, data, .. }) } => {
                Some(messages::published(id, self.publish(&channel, &data)))
            }
            _ => None,
        }
    }

    /// Returns the message after the cursor.
    pub(crate) fn next(&self, cursor: usize) -> Option<Utf8Bytes> {
        self.messages.read().get(cursor).cloned()
    }

    /// Encodes the text once for all subscribers, wakes them, and drops those whose connections are closed.
    /// Returns the message's offset.
    fn publish(&self, channel: &str, data: &str) -> usize {
        let offset = {
            let mut messages = self.messages.write();
            let offset = messages.len() + 1;
            messages.push(messages::message(offset, channel, data).into());
            offset
        };
        retain_open(&mut self.subscribers.lock(), ConnectionSignal::wake);
        offset
    }
}
