use std::sync::Arc;

use encke_core::Timestamp;
use encke_core::close::CloseCode;
use tokio_util::sync::CancellationToken;

use super::Context;
use crate::admission::UnfinishedMessage;
use crate::session::{Link, Notes};

/// What a message that is not whole yet comes by.
#[derive(Clone, Debug)]
pub(crate) enum Sender {
    /// A session's connection.
    Connection(Arc<Link>),
    /// A request beside it, which is given up when this is cancelled.
    Request(CancellationToken),
}

impl Sender {
    fn cut(self) {
        match self {
            Self::Connection(link) => {
                // At rest it has nothing unfinished, or no more.
                if let Some(task) = link.post_to_task(Notes::close(CloseCode::TryAgainLater)) {
                    task.wake();
                }
            }
            Self::Request(cut) => cut.cancel(),
        }
    }
}

impl Context {
    /// A message has so many bytes now. If all together have too many, some of them are given up, perhaps this one.
    pub(crate) fn account(&self, message: &UnfinishedMessage<Sender>, bytes: usize, now: Timestamp) {
        for sender in message.set(bytes, now) {
            self.metrics.connections.unfinished_closed();
            sender.cut();
        }
    }
}
