use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use encke_core::close::CloseReason;
use encke_core::session::{Input, LifecycleEvent, SessionTimeouts};
use encke_timeouts::Timeouts;

use super::attach::AttachRefusal;
use super::cell::{Cells, SessionCell, SessionHandle, SessionRef};
use super::ended_sessions::EndedSessions;
use super::join_leave::JoinLeave;
use super::registry::Registry;
use super::restored_credentials::RestoredCredentials;
use super::suspended_sessions::SuspendedSessions;
use super::timeline::{SessionHistory, Timeline};
use super::users::Users;
use super::{Channels, SessionId};
use crate::arena::SlotGuard;
use crate::auth::Revocations;
use crate::engine::LogEngine;
use crate::entropy::Entropy;
use crate::executor::Executor;
use crate::metrics::Metrics;

/// Receives all lifecycle events, and messages from clients to the server's own code. Called without holding
/// locks unless stated otherwise. Implementations must not panic.
pub(crate) trait EventSink: Send + Sync + 'static {
    /// Whether [`Self::session_event_in_order`] should be called. Must always return the same value.
    fn wants_order(&self) -> bool {
        false
    }

    /// Called with every event before [`Self::session_event`], while the session's lock is held, so the
    /// events of one session arrive in order. The implementation must do no more than record the event.
    fn session_event_in_order(&self, _session: SessionId, _user: Option<&Arc<str>>, _event: LifecycleEvent) {}

    fn session_event(&self, session: SessionId, user: Option<&str>, event: LifecycleEvent);

    /// Handles a service message. Returns whether the message was accepted.
    fn service_message(&self, _session: SessionId, _user: Option<&str>, _channel: &str, _data: &str) -> bool {
        false
    }
}

/// Values of [`Sessions::shutdown`].
const RUNNING: u8 = 0;
const DRAINING: u8 = 1;
const MOVING: u8 = 2;

/// Limits on sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionLimits {
    /// Maximum number of sessions, including suspended ones.
    pub(crate) sessions: usize,
    /// Maximum number of messages that each session keeps as sent but not acknowledged.
    pub(crate) unacked: usize,
    /// Maximum number of subscriptions of each session.
    pub(crate) subscriptions: usize,
}

/// Logs that sessions read and publish to.
#[derive(Clone, Debug)]
pub(crate) struct SessionLogs {
    pub(crate) engine: Arc<dyn LogEngine<SessionRef>>,
    /// Logs that sessions read. They are filled by the engine.
    pub(crate) channels: Arc<Channels>,
}

/// All sessions. Every change to a session goes through this type.
pub(crate) struct Sessions {
    pub(super) cells: Arc<Cells>,
    pub(super) registry: Registry,
    pub(super) users: Users,
    pub(super) revocations: Revocations,
    pub(super) suspended: SuspendedSessions,
    pub(super) ended: EndedSessions,
    pub(super) timeline: Timeline,
    pub(super) limits: SessionLimits,
    pub(super) timeouts: Arc<Timeouts>,
    pub(super) settings: SessionTimeouts,
    pub(super) logs: SessionLogs,
    pub(super) metrics: Arc<Metrics>,
    pub(super) entropy: Entropy,
    /// Runs background tasks that wait for an engine.
    pub(super) executor: Arc<dyn Executor>,
    pub(super) events: Box<dyn EventSink>,
    /// Cached result of [`EventSink::wants_order`].
    pub(super) in_order: bool,
    /// Number of connections so far.
    pub(super) connections: AtomicU64,
    /// Secrets of restored sessions whose clients have not reconnected yet.
    pub(super) restored_credentials: RestoredCredentials,
    /// Join and leave notices, if any namespace has `join_leave`.
    pub(super) join_leave: Option<Arc<JoinLeave>>,
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
    ) -> Arc<Self> {
        let lookup = Arc::clone(logs.channels.registry());
        let has_join_leave = logs.channels.namespaces().any_join_leave();
        let join_leave = has_join_leave.then(|| {
            let (logs, timeouts) = (logs.clone(), Arc::clone(&timeouts));
            Arc::new(JoinLeave::new(logs, timeouts, Arc::clone(&metrics), Arc::clone(&executor)))
        });
        let sessions = Arc::new(Self {
            registry: Registry::new(limits.sessions, Arc::clone(&lookup.cells)),
            cells: Arc::clone(&lookup.cells),
            users: Users::default(),
            revocations,
            suspended: SuspendedSessions::default(),
            ended: EndedSessions::default(),
            timeline: Timeline::new(timeouts.clock().unix_now()),
            limits,
            timeouts,
            settings,
            logs,
            metrics,
            entropy,
            executor,
            in_order: events.wants_order(),
            events,
            connections: AtomicU64::new(0),
            restored_credentials: RestoredCredentials::default(),
            join_leave,
            shutdown: AtomicU8::new(RUNNING),
        });
        _ = lookup.sessions.set(Arc::downgrade(&sessions));
        sessions
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(crate) fn settings(&self) -> &SessionTimeouts {
        &self.settings
    }

    /// Passes a client's service message to the server's own code. Returns whether it was accepted.
    pub(crate) fn service_message(&self, session: &SessionCell, channel: &str, data: &str) -> bool {
        self.events.service_message(session.id(), session.identity().user(), channel, data)
    }

    /// Creates another handle to a session.
    pub(crate) fn clone_handle(&self, session: &SessionCell) -> SessionHandle {
        self.cells.guard(session)
    }

    /// Returns the session, unless it has ended.
    pub(crate) fn get(&self, reference: SessionRef) -> Option<SlotGuard<'_, SessionCell>> {
        self.cells.get(reference)
    }

    /// Returns the number of sessions that are still referenced: those in the registry, and those that have
    /// ended but still have a task.
    #[cfg(feature = "simulation")]
    pub(crate) fn referenced(&self) -> usize {
        self.cells.len()
    }

    /// Returns the recent lifecycle events of a session, which may have ended. `None` if the session does not
    /// exist and none of its events is still stored.
    pub(crate) fn history_of(&self, session: SessionId) -> Option<SessionHistory> {
        // Check this before reading the events: an end is recorded before the session leaves the registry.
        let exists = self.registry.get(session).is_some();
        let history = self.timeline.history_of(session);
        (exists || !history.events.is_empty()).then_some(history)
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
        self.shutdown.store(DRAINING, Ordering::Release);
        for session in self.registry.pages().flatten() {
            self.handle(&session, Input::Close(CloseReason::Draining));
        }
    }

    /// Prepares all sessions to continue in another process, and refuses new ones.
    pub(crate) fn move_all(&self) {
        self.shutdown.store(MOVING, Ordering::Release);
        for session in self.registry.pages().flatten() {
            self.handle(&session, Input::Move);
        }
    }
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").field("len", &self.registry.len()).finish_non_exhaustive()
    }
}
