//! Sessions that several servers share: a session resumes on any of them.
//!
//! Redis contains a record of each session, which its owner writes when the session changes. `encke_core::ownership`
//! describes the protocol. A server whose client asks for a session that it does not have claims the session
//! (`acquire`, `claim`), and its owner, if alive, releases it (`release`). Sessions whose owner is dead are adopted (`adopt`).

mod acquire;
mod adopt;
mod claim;
mod confirm;
mod drain;
mod forward;
mod lease;
mod record;
mod release;
mod writer;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use encke_base::executor::Executor;
use encke_base::locks::Mutex;
use encke_base::metrics::Metrics;
use encke_broker::engine::{DirectoryListener, LEASE, LeaseRenewal, ServerMessage, SessionDirectory};
use encke_core::ownership::Lease;
use encke_timeouts::Timeouts;
use tokio::sync::Notify;

use super::id::SessionId;
use super::lifecycle::Sessions;
use super::session_ref::SessionRef;
use super::table::DirectoryWrites;
use claim::PendingClaim;
use forward::Forwarding;

pub(crate) use acquire::{AcquiredSession, ClaimedSession};
pub(crate) use forward::{ForwardedRequests, NotForwarded, RequestKind};

/// [Sessions that several servers share](self).
pub(crate) struct SharedSessions {
    sessions: Arc<Sessions>,
    directory: Arc<dyn SessionDirectory>,
    writes: Arc<DirectoryWrites>,
    lease: Mutex<Lease>,
    /// Servers that held a lease at the last renewal.
    servers: Mutex<Vec<String>>,
    /// Reply to the last renewal of the lease, until it has been checked for sessions to adopt.
    renewal: Mutex<Option<LeaseRenewal>>,
    claims: Mutex<HashMap<SessionId, Arc<PendingClaim>>>,
    /// Notified after each batch of writes.
    written: Notify,
    /// Wakes the task that renews the lease.
    lease_wanted: Notify,
    /// Time of the machine from which ends are sent. After a failover, other servers have to verify their sessions first.
    ends_from: Mutex<Duration>,
    /// Sessions whose ends are sent later.
    postponed: Mutex<Vec<SessionRef>>,
    forwarding: Forwarding,
    metrics: Arc<Metrics>,
    timeouts: Arc<Timeouts>,
    executor: Arc<dyn Executor>,
}

impl SharedSessions {
    /// Starts the tasks that renew the lease, write records and adopt sessions. They run until the server shuts down.
    pub(crate) fn start(
        sessions: &Arc<Sessions>,
        directory: Arc<dyn SessionDirectory>,
        metrics: Arc<Metrics>,
        timeouts: Arc<Timeouts>,
        executor: Arc<dyn Executor>,
    ) -> Arc<Self> {
        let shared = Arc::new(Self {
            sessions: Arc::clone(sessions),
            directory,
            writes: sessions.lifecycle.directory_writes(),
            lease: Mutex::new(Lease::new(LEASE)),
            servers: Mutex::default(),
            renewal: Mutex::default(),
            claims: Mutex::default(),
            written: Notify::new(),
            lease_wanted: Notify::new(),
            ends_from: Mutex::default(),
            postponed: Mutex::default(),
            forwarding: Forwarding::new(),
            metrics,
            timeouts,
            executor,
        });
        let weak: Weak<Self> = Arc::downgrade(&shared);
        shared.directory.set_listener(weak);
        shared.executor.spawn(Box::pin(Arc::clone(&shared).keep_lease()));
        shared.executor.spawn(Box::pin(Arc::clone(&shared).write_changes()));
        shared.executor.spawn(Box::pin(Arc::clone(&shared).adopt_sessions()));
        shared
    }

    fn has_lease(&self) -> bool {
        self.lease.lock().is_valid(self.boot_time())
    }

    fn boot_time(&self) -> Duration {
        self.timeouts.clock().boot_time()
    }
}

impl DirectoryListener for SharedSessions {
    fn receive(&self, from: &str, message: ServerMessage) {
        match message {
            ServerMessage::Release(session) => self.release(SessionId::from_bytes(session), from),
            ServerMessage::Released(session) => {
                let claim = self.claims.lock().get(&SessionId::from_bytes(session)).cloned();
                if let Some(claim) = claim {
                    claim.released_by(from);
                }
            }
            ServerMessage::Request { number, payload } => self.receive_request(from, number, payload),
            ServerMessage::Reply { number, payload } => self.receive_reply(number, payload),
        }
    }

    fn connected(&self) {
        self.lease_wanted.notify_one();
    }
}

impl fmt::Debug for SharedSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedSessions").field("directory", &self.directory).finish_non_exhaustive()
    }
}
