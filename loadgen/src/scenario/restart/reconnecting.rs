//! Reconnects clients after the delay that the server advises, and retries until they are connected.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use encke_core::close::CloseCode;
use rand::RngExt;
use serde::Serialize;
use tokio::time::{Instant, sleep, sleep_until};

use super::Restart;
use crate::client::{ClientFailure, Ticket};
use crate::record::{Counter, Recorder, Times};
use crate::result::{Distribution, seconds};
use crate::scenario::connects::{Resumes, ResumesOutcome};
use crate::scenario::{Attempt, OpenedConnection, Setup, open};
use crate::transport::websocket::ConnectionEnd;

/// Upper bound on the delay before reconnecting if the server gave no advice, or after a failed attempt.
const MAX_DELAY: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(super) struct Returns {
    /// Number of connections that ended with 4008.
    moved: Counter,
    /// Number of connections that ended otherwise.
    otherwise: Counter,
    /// Number of clients that resumed their sessions. The next field counts clients that received new
    /// sessions.
    resumed: Counter,
    not_recovered: Counter,
    /// Number of connection attempts that did not lead to a hello.
    refused: Counter,
    resumes: Resumes,
    /// Time from the end of a connection to the hello of the next one.
    away: Times,
    restarted_at: Cell<Option<Instant>>,
    /// Time from the restart to the last hello.
    took: Cell<Option<Duration>>,
}

impl Returns {
    pub(super) fn register(&self, recorder: &Recorder) {
        recorder.counters([
            ("moved", &self.moved),
            ("resumed", &self.resumed),
            ("not_recovered", &self.not_recovered),
            ("refused", &self.refused),
        ]);
        self.resumes.register(recorder);
        recorder.times("away_ms", &self.away);
    }

    /// Records that the restart begins.
    pub(super) fn note_restart(&self) {
        self.restarted_at.set(Some(Instant::now()));
    }

    /// Returns the number of connections that ended.
    pub(super) fn lost(&self) -> u64 {
        self.moved.get() + self.otherwise.get()
    }

    /// Returns the number of clients that reconnected.
    pub(super) fn back(&self) -> u64 {
        self.resumed.get() + self.not_recovered.get()
    }

    pub(super) fn outcome(&self) -> ReturnsOutcome {
        ReturnsOutcome {
            moved: self.moved.get(),
            resumed: self.resumed.get(),
            not_recovered: self.not_recovered.get(),
            refused: self.refused.get(),
            all_back_seconds: self.took.get().map(seconds),
            away_ms: self.away.summary(),
            resumes: self.resumes.outcome(),
        }
    }

    fn note_return(&self, opened: &OpenedConnection, lost_at: Instant) {
        self.resumes.record(opened);
        self.away.record(opened.at - lost_at);
        if let Some(restarted_at) = self.restarted_at.get() {
            self.took.set(self.took.get().max(Some(opened.at.saturating_duration_since(restarted_at))));
        }
        if opened.greeting.recovered { self.resumed.increment() } else { self.not_recovered.increment() }
    }
}

#[derive(Serialize)]
pub(super) struct ReturnsOutcome {
    moved: u64,
    resumed: u64,
    not_recovered: u64,
    refused: u64,
    all_back_seconds: Option<f64>,
    away_ms: Distribution,
    #[serde(flatten)]
    resumes: ResumesOutcome,
}

impl Restart {
    /// Reconnects after the delay that the server advised (`retry`), and retries until an attempt succeeds.
    /// Records how the previous connection ended.
    pub(super) async fn reconnect(
        &self,
        setup: &Rc<Setup>,
        end: ConnectionEnd,
        ticket: &Ticket,
        retry: Option<Duration>,
    ) -> OpenedConnection {
        let lost_at = Instant::now();
        if end.code() == CloseCode::Moved.code() {
            self.returns.moved.increment();
            self.subscribers.answering.ends.record(end);
        } else {
            self.returns.otherwise.increment();
            self.subscribers.answering.record_close(end);
        }
        let due = lost_at + retry.unwrap_or_else(random_delay);
        sleep_until(due).await;
        loop {
            match open(setup.clone(), Attempt::new(0, due, Some(ticket.clone()))).await {
                Ok(opened) => {
                    self.returns.note_return(&opened, lost_at);
                    if !opened.greeting.recovered {
                        setup.failures.record(&ClientFailure::NotRecovered);
                    }
                    return opened;
                }
                Err(failure) => {
                    self.returns.refused.increment();
                    setup.failures.record(&failure);
                    sleep(random_delay()).await;
                }
            }
        }
    }
}

/// Returns a random delay, so that clients do not all reconnect simultaneously.
fn random_delay() -> Duration {
    MAX_DELAY.mul_f64(rand::rng().random_range(0.1..1.0))
}
