//! A session's record in the directory, if several servers share their sessions.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use encke_base::locks::Mutex;
use encke_core::ownership::Ownership;
use encke_core::session::{LifecycleEvent, Phase};
use tokio::sync::{Notify, oneshot};

use super::cell::{SessionHandle, SessionState};
use crate::session::id::{SecretDigest, SessionId};
use crate::session::session_ref::SessionRef;

/// State of a session that is in the directory.
#[derive(Debug)]
pub(crate) struct SharedState {
    pub(crate) ownership: Ownership,
    /// Digest of the client's secret, kept until the directory has confirmed the end of the session.
    pub(crate) digest: SecretDigest,
    writes: Arc<DirectoryWrites>,
    /// Whether the session is queued in `writes`.
    is_queued: bool,
    /// Whether this server claimed the session for a client that has not been attached yet.
    is_claimed: bool,
    /// Whether another server may have sent messages after this state.
    pub(crate) is_outdated: bool,
    /// Whether the session had a connection when it was handed over.
    pub(crate) was_attached: bool,
    /// Connections that wait until this server may serve the client.
    waiting: Vec<oneshot::Sender<()>>,
    /// Servers that have asked for the session.
    pub(crate) asked_by: Vec<String>,
}

/// Sessions whose records have to be written.
#[derive(Default)]
pub(crate) struct DirectoryWrites {
    queue: Mutex<Vec<SessionRef>>,
    /// Whether a client or a server waits for one of the writes.
    is_urgent: AtomicBool,
    changed: Notify,
    /// Last known generation of the directory.
    generation: AtomicU64,
    /// Sessions that have ended here, with their last events. An event is reported once the directory has confirmed
    /// the end. Each of the sessions keeps its slot until then, so there are no more than slots.
    ended: Mutex<HashMap<SessionId, (SessionHandle, LifecycleEvent)>>,
}

impl SharedState {
    /// Creates the state of a session that was opened by a client of this server.
    pub(crate) fn opened(digest: SecretDigest, writes: &Arc<DirectoryWrites>) -> Self {
        Self::new(Ownership::opened(writes.generation()), digest, writes)
    }

    /// Creates the state of a session that the directory has granted. `is_claimed`: for a client that waits for it.
    pub(crate) fn granted(
        ownership: Ownership,
        digest: SecretDigest,
        is_claimed: bool,
        is_outdated: bool,
        writes: &Arc<DirectoryWrites>,
    ) -> Self {
        Self { is_claimed, is_outdated, ..Self::new(ownership, digest, writes) }
    }

    fn new(ownership: Ownership, digest: SecretDigest, writes: &Arc<DirectoryWrites>) -> Self {
        Self {
            ownership,
            digest,
            writes: Arc::clone(writes),
            is_queued: false,
            is_claimed: false,
            is_outdated: false,
            was_attached: false,
            waiting: Vec::new(),
            asked_by: Vec::new(),
        }
    }

    /// Records a change of phase or of the connection. Returns whether this server may report the session's end.
    pub(crate) fn phase_changed(&mut self, session: SessionRef, before: Phase, after: Phase) -> bool {
        match after {
            Phase::Closed(_) => {
                let is_owner = self.ownership.end();
                self.enqueue(session, true);
                return is_owner;
            }
            Phase::Attached(_) => {
                // A claim has already recorded the client.
                if self.take_claim() {
                    self.ownership.change();
                } else {
                    self.ownership.attach();
                }
                self.enqueue(session, true);
            }
            Phase::Suspended if before.has_client() => self.detach(session),
            Phase::BetweenPolls | Phase::Suspended | Phase::Moved => {}
        }
        true
    }

    /// Whether this server claimed the session for a client that has not been attached yet. Returns true once.
    pub(crate) fn take_claim(&mut self) -> bool {
        std::mem::take(&mut self.is_claimed)
    }

    /// Records that the session has no client.
    pub(crate) fn detach(&mut self, session: SessionRef) {
        self.ownership.detach();
        self.enqueue(session, false);
    }

    /// Records a change of the state in the record.
    pub(crate) fn change(&mut self, session: SessionRef) {
        self.ownership.change();
        self.enqueue(session, false);
    }

    /// Queues the session for the next write.
    pub(crate) fn enqueue(&mut self, session: SessionRef, is_urgent: bool) {
        if !std::mem::replace(&mut self.is_queued, true) {
            self.writes.queue.lock().push(session);
        }
        self.writes.wake(is_urgent);
    }

    /// Records that the session has been taken from the queue.
    pub(crate) fn dequeued(&mut self) {
        self.is_queued = false;
    }

    /// Returns a future that completes when an operation has finished.
    pub(crate) fn wait(&mut self) -> oneshot::Receiver<()> {
        let (sender, changed) = oneshot::channel();
        self.waiting.retain(|waiting| !waiting.is_closed());
        self.waiting.push(sender);
        changed
    }

    /// Wakes all connections that wait.
    pub(crate) fn wake(&mut self) {
        self.waiting.drain(..).for_each(|waiting| _ = waiting.send(()));
    }
}

impl DirectoryWrites {
    /// Returns the last known generation of the directory.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Sets the generation. Returns whether it has changed since the first one was set.
    pub(crate) fn set_generation(&self, generation: u64) -> bool {
        let before = self.generation.swap(generation, Ordering::Relaxed);
        before != generation && before != 0
    }

    /// Takes at most `limit` sessions from the queue.
    pub(crate) fn take(&self, limit: usize) -> Vec<SessionRef> {
        let mut queue = self.queue.lock();
        let count = limit.min(queue.len());
        queue.drain(..count).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.lock().is_empty()
    }

    /// Wakes the task that writes.
    pub(crate) fn wake(&self, is_urgent: bool) {
        if is_urgent {
            self.is_urgent.store(true, Ordering::Relaxed);
        }
        self.changed.notify_one();
    }

    /// Whether a write has become urgent since the last call.
    pub(crate) fn take_urgency(&self) -> bool {
        self.is_urgent.swap(false, Ordering::Relaxed)
    }

    /// Waits until the queue has changed.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Keeps the last event of a session until the directory has confirmed the end.
    pub(crate) fn add_ended(&self, session: SessionHandle, event: LifecycleEvent) {
        self.ended.lock().insert(session.id(), (session, event));
    }

    /// Returns the event of a session whose end has been decided.
    pub(crate) fn take_ended(&self, session: SessionId) -> Option<(SessionHandle, LifecycleEvent)> {
        self.ended.lock().remove(&session)
    }

    /// Returns a session that has ended here, if its end has not been decided.
    pub(crate) fn ending(&self, session: SessionId) -> Option<SessionHandle> {
        self.ended.lock().get(&session).map(|(session, _)| session.clone())
    }

    /// Number of sessions whose end has not been decided.
    pub(crate) fn ended_len(&self) -> usize {
        self.ended.lock().len()
    }
}

impl fmt::Debug for DirectoryWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectoryWrites").field("ended", &self.ended_len()).finish_non_exhaustive()
    }
}

impl SessionState {
    /// Records a change that the session's record has to contain. Has no effect if sessions are not shared.
    pub(crate) fn note_change(&mut self, session: SessionRef) {
        if let Some(shared) = self.shared_mut() {
            shared.change(session);
        }
    }
}
