//! Reconnects clients after the delay that the server advises, and retries until they are connected.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use encke_client::{ConnectionEnd, Ticket};
use encke_core::close::CloseCode;
use rand::RngExt;
use tokio::time::{Instant, sleep, sleep_until};

use super::Restart;
use crate::failures::Failures;
use crate::record::{Counter, Metrics, Times};
use crate::scenario::connects::Resumes;
use crate::scenario::{Attempt, OpenedConnection, Setup, open};

/// Upper bound on the delay before reconnecting if the server gave no advice, or after a failed attempt.
const MAX_DELAY: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Returns {
    /// Number of connections that ended with 4008.
    moved: Counter,
    /// Number of connections that ended otherwise.
    otherwise: Counter,
    resumes: Resumes,
    /// Number of clients that received new sessions.
    not_recovered: Counter,
    /// Number of connection attempts that did not lead to a hello.
    refused: Counter,
    /// Time from the end of a connection to the hello of the next one.
    away: Times,
    restarted_at: Cell<Option<Instant>>,
}

impl Returns {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            moved: metrics.counter("moved"),
            otherwise: Counter::default(),
            resumes: Resumes::new(metrics),
            not_recovered: metrics.counter("not_recovered"),
            refused: metrics.counter("refused"),
            away: metrics.times("away_ms"),
            restarted_at: Cell::default(),
        }
    }

    /// Records that the restart begins.
    pub(super) fn note_restart(&self) {
        self.restarted_at.set(Some(Instant::now()));
    }

    /// Returns the number of clients that reconnected.
    pub(super) fn back(&self) -> u64 {
        self.resumes.resumed.get() + self.not_recovered.get()
    }

    fn note_return(&self, opened: &OpenedConnection, lost_at: Instant, failures: &Failures) {
        self.away.record(opened.at - lost_at);
        let restarted_at = self.restarted_at.get().unwrap_or(opened.at);
        if !self.resumes.record(opened, restarted_at, failures) {
            self.not_recovered.increment();
            let since_restart = opened.at.saturating_duration_since(restarted_at);
            self.resumes.all_back_seconds.record(since_restart.as_secs_f64());
        }
    }
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
        } else {
            self.returns.otherwise.increment();
            self.subscribers.answering.unexpected_closes.increment();
        }
        let due = lost_at + retry.unwrap_or_else(random_delay);
        sleep_until(due).await;
        loop {
            match open(setup.clone(), Attempt { index: 0, due, resume: Some(ticket.clone()) }).await {
                Ok(opened) => {
                    self.returns.note_return(&opened, lost_at, &setup.failures);
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
