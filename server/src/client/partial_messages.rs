use std::sync::Arc;

use encke_core::close::CloseCode;
use tokio_util::sync::CancellationToken;

use crate::session::{Mailbox, Signals};

/// Sender of a partial message.
#[derive(Clone, Debug)]
pub(crate) enum PartialMessageSender {
    /// A session's connection.
    Connection(Arc<Mailbox>),
    /// A separate request, outside the session's connection. It is aborted by cancelling this token.
    Request(CancellationToken),
}

impl PartialMessageSender {
    pub(super) fn abort(self) {
        match self {
            Self::Connection(mailbox) => {
                // A parked connection has no partial message, so only a task needs the signal.
                if let Some(task) = mailbox.post_to_task(Signals::close(CloseCode::TryAgainLater)) {
                    task.wake();
                }
            }
            Self::Request(token) => token.cancel(),
        }
    }
}
