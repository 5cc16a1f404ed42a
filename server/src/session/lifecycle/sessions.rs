use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use encke_base::entropy::Entropy;
use encke_base::executor::Executor;
use encke_base::metrics::Metrics;
use encke_core::close::CloseReason;
use encke_core::session::{Input, SessionTimeouts};
use encke_timeouts::Timeouts;

use super::attach_request::AttachRefusal;
use super::event_sink::EventSink;
use super::online_users::OnlineUsers;
use super::step::Lifecycle;
use crate::auth::Revocations;
use crate::session::channels::SessionLogs;
use crate::session::subscriptions::{SessionLimits, Subscriptions};
use crate::session::table::{DirectoryWrites, SessionTable};

/// Values of [`Sessions::shutdown`].
const RUNNING: u8 = 0;
const DRAINING: u8 = 1;
const MOVING: u8 = 2;

/// Opens, resumes, moves and restores sessions.
pub(crate) struct Sessions {
    pub(crate) table: Arc<SessionTable>,
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(super) revocations: Revocations,
    pub(super) timeouts: Arc<Timeouts>,
    pub(super) metrics: Arc<Metrics>,
    pub(crate) entropy: Entropy,
    /// Number of connections so far.
    pub(super) connections: AtomicU64,
    shutdown: AtomicU8,
}

impl Sessions {
    /// Creates an empty set of sessions.
    #[expect(clippy::too_many_arguments, reason = "what all sessions share")]
    pub(crate) fn new(
        limits: SessionLimits,
        revocations: Revocations,
        timeouts: Arc<Timeouts>,
        settings: SessionTimeouts,
        logs: SessionLogs,
        metrics: Arc<Metrics>,
        entropy: Entropy,
        executor: Arc<dyn Executor>,
        events: Box<dyn EventSink>,
        online: Option<OnlineUsers>,
        writes: Option<Arc<DirectoryWrites>>,
    ) -> Arc<Self> {
        let table = Arc::clone(logs.channels.registry());
        let subscriptions =
            Subscriptions::new(logs, limits, Arc::clone(&timeouts), Arc::clone(&metrics), executor);
        let lifecycle = Lifecycle::new(
            Arc::clone(&table),
            Arc::clone(&subscriptions),
            Arc::clone(&timeouts),
            settings,
            Arc::clone(&metrics),
            events,
            online,
            writes,
        );
        Arc::new(Self {
            table,
            subscriptions,
            lifecycle,
            revocations,
            timeouts,
            metrics,
            entropy,
            connections: AtomicU64::new(0),
            shutdown: AtomicU8::new(RUNNING),
        })
    }

    /// Returns the users whose earlier tokens are rejected.
    pub(crate) fn revocations(&self) -> &Revocations {
        &self.revocations
    }

    /// Whether sessions are being ended or moved, so that no new ones may be opened.
    pub(crate) fn is_draining(&self) -> bool {
        self.shutdown.load(Ordering::Acquire) != RUNNING
    }

    /// Returns the refusal for connections that arrive during a drain.
    pub(super) fn draining_refusal(&self) -> AttachRefusal {
        if self.shutdown.load(Ordering::Acquire) == MOVING {
            AttachRefusal::Moved
        } else {
            AttachRefusal::Draining
        }
    }

    /// Ends all sessions, and refuses new ones.
    pub(crate) fn drain(&self) {
        self.shut_down(DRAINING, Input::Close(CloseReason::Draining));
    }

    /// Refuses new connections, because the sessions move to other servers.
    pub(crate) fn begin_moving(&self) {
        self.shutdown.store(MOVING, Ordering::Release);
    }

    /// Prepares all sessions to continue in another process, and refuses new ones.
    pub(crate) fn move_all(&self) {
        self.shut_down(MOVING, Input::Move);
    }

    /// Ends all moved sessions, because their state could not be saved.
    pub(crate) fn end_moved(&self) {
        self.shut_down(DRAINING, Input::MoveFailed);
    }

    fn shut_down(&self, shutdown: u8, input: Input) {
        self.shutdown.store(shutdown, Ordering::Release);
        for session in self.table.registry().pages().flatten() {
            self.lifecycle.handle(&session, input);
        }
    }
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").field("len", &self.table.registry().len()).finish_non_exhaustive()
    }
}
