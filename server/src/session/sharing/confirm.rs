//! Confirming that this server owns the session of a new connection.

use std::time::Duration;

use encke_core::close::SuspendReason;
use encke_core::session::ConnectionInput;

use super::SharedSessions;
use crate::session::lifecycle::{AttachRefusal, Attached};

/// How long a connection waits for the confirmation.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a new client waits for the record of its session.
const RECORD_TIMEOUT: Duration = Duration::from_secs(1);

impl SharedSessions {
    /// Waits until the record of a new session exists, because its client may reach another server next. Without the
    /// directory, the session can still be used on this server.
    pub(crate) async fn await_record(&self, attached: &Attached) {
        let until = self.timeouts.clock().now() + RECORD_TIMEOUT;
        loop {
            let changed = match attached.session.lock().shared_mut() {
                Some(shared) if !shared.ownership.is_written(1) => {
                    shared.enqueue(attached.session.reference(), true);
                    shared.wait()
                }
                _ => return,
            };
            let remaining = until.since(self.timeouts.clock().now());
            if remaining.is_zero() || self.timeouts.within(remaining, changed).await.is_none() {
                return;
            }
        }
    }

    /// Waits until the directory has confirmed that this server owns the session of a new connection. Until then, the
    /// client is not served: another server may have taken the session while this one did not respond.
    ///
    /// # Errors
    /// Returns an [`AttachRefusal`] if another server owns the session, or if the directory does not respond.
    pub(crate) async fn confirm(&self, attached: &Attached) -> Result<(), AttachRefusal> {
        let Attached { session, mailbox, .. } = attached;
        let until = self.timeouts.clock().now() + CONFIRM_TIMEOUT;
        loop {
            let changed = {
                let mut state = session.lock();
                let is_attached = state.is_attached_to(mailbox.id);
                let Some(shared) = state.shared_mut() else { return Ok(()) };
                if shared.ownership.loss().is_some() {
                    // The client will find the session on its next attempt.
                    return Err(AttachRefusal::Unavailable);
                }
                // If another connection has taken over, this one will find the reason.
                if shared.ownership.may_serve() || !is_attached {
                    return Ok(());
                }
                shared.wait()
            };
            let remaining = until.since(self.timeouts.clock().now());
            if remaining.is_zero() || self.timeouts.within(remaining, changed).await.is_none() {
                let lost = ConnectionInput::Ended(SuspendReason::ConnectionLost);
                self.sessions.lifecycle.handle_connection(session, mailbox.id, lost);
                mailbox.take_permit();
                return Err(AttachRefusal::Unavailable);
            }
        }
    }
}
