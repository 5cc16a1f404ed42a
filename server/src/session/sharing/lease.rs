//! This server's lease in the directory.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use encke_broker::engine::{LEASE, LeaseRenewal};
use encke_core::session::{Input, RequestInput};
use futures_util::future::select;

use super::SharedSessions;
use crate::session::table::SessionHandle;

/// How often the lease is renewed.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(3);

/// How often a lease that has ended is renewed.
const TICK: Duration = Duration::from_secs(1);

/// How long after a failover ends are postponed. Until then, the other servers have verified the sessions of their
/// clients, even if the failover has lost the claims.
const END_DELAY: Duration = LEASE.saturating_mul(2);

impl SharedSessions {
    /// Renews the lease until the server shuts down.
    pub(super) async fn keep_lease(self: Arc<Self>) {
        let mut renewed_at: Option<Duration> = None;
        loop {
            let sent_at = self.boot_time();
            let is_due = renewed_at.is_none_or(|at| sent_at >= at + RENEWAL_INTERVAL) || !self.has_lease();
            if is_due && let Some(renewal) = self.directory.renew_lease().await {
                renewed_at = Some(sent_at);
                self.renewed(sent_at, &renewal);
                self.servers.lock().clone_from(&renewal.alive);
                *self.renewal.lock() = Some(renewal);
            }
            self.metrics.sharing.set_has_lease(self.has_lease());
            self.send_postponed();
            let wanted = pin!(self.lease_wanted.notified());
            select(pin!(self.timeouts.sleep(TICK)), wanted).await;
        }
    }

    fn renewed(&self, sent_at: Duration, renewal: &LeaseRenewal) {
        let now = self.boot_time();
        let has_failed_over = self.writes.set_generation(renewal.generation);
        let had_ended = {
            let mut lease = self.lease.lock();
            let had_ended = lease.renewed(sent_at, now, renewal.was_held).is_some();
            if has_failed_over {
                lease.postpone_adoption(now);
            }
            had_ended
        };
        if has_failed_over {
            tracing::info!(generation = renewal.generation, "Redis has failed over: sessions are verified");
            *self.ends_from.lock() = now + END_DELAY;
        }
        if had_ended || has_failed_over {
            self.sessions
                .table
                .registry()
                .pages()
                .flatten()
                .for_each(|session| self.suspect(&session, has_failed_over));
        }
        self.writes.wake(true);
    }

    /// Verifies the ownership of a session. After a failover, which may have lost the claim of another server, its
    /// client may have received messages from there, and gets a whole reconnect window.
    fn suspect(&self, session: &SessionHandle, has_failed_over: bool) {
        if has_failed_over {
            self.sessions.lifecycle.handle(session, Input::Request(RequestInput::Activity));
        }
        let mut state = session.lock();
        let is_suspended = state.machine.suspended_since().is_some();
        if let Some(shared) = state.shared_mut() {
            shared.is_outdated |= has_failed_over && is_suspended;
            shared.ownership.suspect();
            shared.enqueue(session.reference(), false);
        }
    }

    fn send_postponed(&self) {
        if self.boot_time() < *self.ends_from.lock() {
            return;
        }
        let postponed = std::mem::take(&mut *self.postponed.lock());
        for reference in postponed {
            if let Some(session) = self.sessions.table.get(reference)
                && let Some(shared) = session.lock().shared_mut()
            {
                shared.enqueue(reference, true);
            }
        }
    }
}
