use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use encke_core::close::CloseReason;
use encke_core::session::{Input, LifecycleEvent, SessionTimeouts};

use super::attach::Refusal;
use super::cell::{Cells, SessionCell, SessionHandle, SessionRef};
use super::join_leave::JoinLeave;
use super::registry::Registry;
use super::suspended::Suspended;
use super::timeline::{SessionLife, Timeline};
use super::unclaimed::Unclaimed;
use super::untold::Untold;
use super::users::Users;
use super::{Channels, SessionId};
use crate::arena::Borrowed;
use crate::auth::Revocations;
use crate::engine::LogEngine;
use crate::entropy::Entropy;
use crate::executor::Executor;
use crate::metrics::Metrics;
use crate::timeouts::Timeouts;

/// Is told of every lifecycle event, and of what clients say to the server's own code, with no lock held unless it says so. Implementations
/// must not panic.
pub(crate) trait EventSink: Send + Sync + 'static {
    /// Whether it wants to hear [`Self::session_event_in_order`]. It stays the same.
    fn wants_order(&self) -> bool {
        false
    }

    /// The same event as that of [`Self::session_event`], earlier, under the session's lock: so those of one session come in their order. It must
    /// do no more than write it down.
    fn session_event_in_order(&self, _session: SessionId, _user: Option<&Arc<str>>, _event: LifecycleEvent) {}

    fn session_event(&self, session: SessionId, user: Option<&str>, event: LifecycleEvent);

    /// Returns whether the message is taken.
    fn service_message(&self, _session: SessionId, _user: Option<&str>, _channel: &str, _data: &str) -> bool {
        false
    }
}

/// How the server ends, if it does.
const STAYING: u8 = 0;
const DRAINING: u8 = 1;
const MOVING: u8 = 2;

/// What sessions may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionLimits {
    /// Sessions, suspended ones included.
    pub(crate) sessions: usize,
    /// Messages that each remembers as sent and unacknowledged.
    pub(crate) unacked: usize,
    /// Channels that each may follow.
    pub(crate) subscriptions: usize,
}

/// Where sessions read and publish.
#[derive(Clone, Debug)]
pub(crate) struct Logs {
    pub(crate) engine: Arc<dyn LogEngine<SessionRef>>,
    /// The logs that sessions read from, which the engine fills.
    pub(crate) channels: Arc<Channels>,
}

/// All sessions, and the only way to change one.
pub(crate) struct Sessions {
    pub(super) cells: Arc<Cells>,
    pub(super) registry: Registry,
    pub(super) users: Users,
    /// Users whose tokens of before are refused.
    pub(super) revocations: Revocations,
    pub(super) suspended: Suspended,
    pub(super) untold: Untold,
    /// What has happened to them lately.
    pub(super) timeline: Timeline,
    pub(super) limits: SessionLimits,
    pub(super) timeouts: Arc<Timeouts>,
    pub(super) settings: SessionTimeouts,
    pub(super) logs: Logs,
    pub(super) metrics: Arc<Metrics>,
    pub(super) entropy: Entropy,
    /// Runs what waits for an engine, and nobody else waits for.
    pub(super) executor: Arc<dyn Executor>,
    pub(super) events: Box<dyn EventSink>,
    /// [`EventSink::wants_order`].
    pub(super) in_order: bool,
    /// Connections so far.
    pub(super) connections: AtomicU64,
    /// Those of an earlier process whose clients have not come back yet.
    pub(super) unclaimed: Unclaimed,
    /// Joins and leaves, if followers of any channel are told of them.
    pub(super) join_leave: Option<Arc<JoinLeave>>,
    end: AtomicU8,
}

impl Sessions {
    /// No sessions yet.
    #[expect(clippy::too_many_arguments, reason = "what all sessions share")]
    pub(crate) fn new(
        limits: SessionLimits,
        revocations: Revocations,
        timeouts: Arc<Timeouts>,
        settings: SessionTimeouts,
        logs: Logs,
        metrics: Arc<Metrics>,
        entropy: Entropy,
        executor: Arc<dyn Executor>,
        events: Box<dyn EventSink>,
    ) -> Self {
        let cells = Arc::clone(logs.channels.home());
        let tells = logs.channels.namespaces().any_joins_and_leaves();
        let join_leave = tells.then(|| {
            let (logs, timeouts) = (logs.clone(), Arc::clone(&timeouts));
            Arc::new(JoinLeave::new(logs, timeouts, Arc::clone(&metrics), Arc::clone(&executor)))
        });
        Self {
            registry: Registry::new(limits.sessions, Arc::clone(&cells)),
            cells,
            users: Users::default(),
            revocations,
            suspended: Suspended::default(),
            untold: Untold::default(),
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
            unclaimed: Unclaimed::default(),
            join_leave,
            end: AtomicU8::new(STAYING),
        }
    }

    /// The table of sessions.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The timeouts of every session.
    pub(crate) fn settings(&self) -> &SessionTimeouts {
        &self.settings
    }

    /// A client says something to the server's own code. Returns whether that takes it.
    pub(crate) fn service_message(&self, session: &SessionCell, channel: &str, data: &str) -> bool {
        self.events.service_message(session.id(), session.identity().user(), channel, data)
    }

    /// Holds a session, which is held, for longer.
    pub(crate) fn hold(&self, session: &SessionCell) -> SessionHandle {
        self.cells.hold(session)
    }

    /// The session, if it is still there.
    pub(crate) fn get(&self, reference: SessionRef) -> Option<Borrowed<'_, SessionCell>> {
        self.cells.get(reference)
    }

    /// How many are held: those in the registry, and those that have ended and still have a task.
    #[cfg(feature = "simulation")]
    pub(crate) fn held(&self) -> usize {
        self.cells.len()
    }

    /// What is known of a session's life, even if it is over. `None` if there is no such session, and nothing of one is known any more.
    pub(crate) fn life_of(&self, session: SessionId) -> Option<SessionLife> {
        // Before its events: an end is noted before it leaves the registry.
        let is_there = self.registry.get(session).is_some();
        let life = self.timeline.of(session);
        (is_there || !life.events.is_empty()).then_some(life)
    }

    /// Users whose tokens of before are refused.
    pub(crate) fn revocations(&self) -> &Revocations {
        &self.revocations
    }

    /// Whether sessions are being ended or moved, and none may begin.
    pub(crate) fn is_draining(&self) -> bool {
        self.end.load(Ordering::Acquire) != STAYING
    }

    /// What connections are told that come then.
    pub(super) fn draining_refusal(&self) -> Refusal {
        if self.end.load(Ordering::Acquire) == MOVING { Refusal::Moved } else { Refusal::Draining }
    }

    /// Ends every session, and lets none begin.
    pub(crate) fn drain(&self) {
        self.end.store(DRAINING, Ordering::Release);
        for session in self.registry.pages().flatten() {
            self.handle(&session, Input::Close(CloseReason::Draining));
        }
    }

    /// Has every session go on in another process, and lets none begin.
    pub(crate) fn move_all(&self) {
        self.end.store(MOVING, Ordering::Release);
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
