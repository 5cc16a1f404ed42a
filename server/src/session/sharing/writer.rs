//! Writing the records of sessions that have changed.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use encke_broker::engine::{DirectoryReply, DirectoryRequest};
use encke_core::close::CloseCode;
use encke_core::ownership::{Loss, Outcome};
use encke_core::session::Phase;
use futures_util::future::select;

use super::SharedSessions;
use crate::session::table::{SessionCell, SessionHandle};

/// How long a change waits for others, unless a client waits for it.
const BATCH_DELAY: Duration = Duration::from_millis(50);

/// Maximum number of records in one batch, which takes Redis about 5 ms.
const MAX_BATCH: usize = 128;

/// Pause after a batch whose outcome is unknown.
const RETRY_DELAY: Duration = Duration::from_millis(250);

impl SharedSessions {
    /// Writes changes until the server shuts down. Without a lease, they wait.
    pub(super) async fn write_changes(self: Arc<Self>) {
        loop {
            self.writes.changed().await;
            if !self.writes.take_urgency() {
                let timeout = pin!(self.timeouts.sleep(BATCH_DELAY));
                let urgent = pin!(async {
                    while !self.writes.take_urgency() {
                        self.writes.changed().await;
                    }
                });
                select(timeout, urgent).await;
            }
            while self.has_lease() && !self.writes.is_empty() {
                if !self.write_batch().await {
                    self.timeouts.sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    /// Writes one batch. Returns false if an outcome is unknown.
    async fn write_batch(&self) -> bool {
        let (mut sessions, mut requests) = (Vec::new(), Vec::new());
        for reference in self.writes.take(MAX_BATCH) {
            let Some(session) = self.sessions.table.get(reference) else { continue };
            if let Some(request) = self.next_request(&session) {
                sessions.push(self.sessions.table.clone_handle(&session));
                requests.push(request);
            }
        }
        let replies = self.directory.execute(&requests).await;
        let mut all_known = true;
        for (session, reply) in sessions.iter().zip(replies) {
            let outcome = match reply {
                Some(DirectoryReply::Outcome(outcome)) => outcome,
                Some(DirectoryReply::OtherGeneration) => {
                    self.lease_wanted.notify_one();
                    Outcome::Unverified
                }
                _ => Outcome::Unknown,
            };
            all_known &= !matches!(outcome, Outcome::Unknown | Outcome::Unverified);
            self.finish(session, outcome);
        }
        self.written.notify_one();
        all_known
    }

    fn next_request(&self, session: &SessionCell) -> Option<DirectoryRequest> {
        let is_postponed = self.boot_time() < *self.ends_from.lock();
        let mut state = session.lock();
        let is_ended = matches!(state.machine.phase(), Phase::Closed(_));
        let shared = state.shared_mut()?;
        shared.dequeued();
        if is_ended && is_postponed {
            self.postponed.lock().push(session.reference());
            return None;
        }
        let operation = shared.ownership.next_operation()?;
        let term = shared.ownership.term();
        let digest = shared.digest;
        let write = self.record(session, &state, digest);
        Some(DirectoryRequest::Operate { session: session.id().bytes(), term, operation, write })
    }

    fn finish(&self, session: &SessionHandle, outcome: Outcome) {
        let mut state = session.lock();
        let phase = state.machine.phase();
        let Some(shared) = state.shared_mut() else { return };
        shared.ownership.finish(outcome);
        if shared.ownership.has_next_operation() {
            shared.enqueue(session.reference(), false);
        }
        shared.wake();
        let loss = shared.ownership.loss();
        let asked_by = if loss.is_some() { std::mem::take(&mut shared.asked_by) } else { Vec::new() };
        drop(state);
        let Some(loss) = loss else { return };
        if let Outcome::Fenced(_) = outcome {
            self.metrics.sharing.fenced();
            tracing::info!(session = %session.id(), ?loss, "session dropped: another server owns it, or it has ended");
        } else if loss == Loss::Moved {
            self.metrics.sharing.released();
        }
        match (phase, self.writes.take_ended(session.id())) {
            (Phase::Closed(_), Some((session, event))) if !matches!(outcome, Outcome::Fenced(_)) => {
                self.sessions.lifecycle.report_end(&session, event);
            }
            (Phase::Closed(_), _) => {}
            _ => {
                let code = if loss == Loss::Moved { CloseCode::Replaced } else { CloseCode::Draining };
                self.sessions.lifecycle.fence(session, code);
            }
        }
        for server in asked_by {
            self.answer(&server, session.id());
        }
    }
}
