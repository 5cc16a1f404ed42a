//! How clients come back, as the server advises, until they are.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use encke_core::close::CloseCode;
use rand::RngExt;
use serde::Serialize;
use tokio::time::{Instant, sleep, sleep_until};

use super::Restart;
use crate::client::{Failure, Ticket};
use crate::record::{Counter, Recorder, Times};
use crate::result::{Distribution, seconds};
use crate::scenario::connects::{Resumes, ResumesOutcome};
use crate::scenario::{Attempt, Opened, Setup, open};
use crate::transport::websocket::End;

/// How long a client stays away at most that was not told how long, and one that could not connect.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(super) struct Returns {
    /// Connections that ended with 4008.
    moved: Counter,
    /// Connections that ended otherwise.
    otherwise: Counter,
    /// Those that came back to their sessions, and those that were given new ones.
    resumed: Counter,
    not_recovered: Counter,
    /// Connects that did not lead to a hello.
    refused: Counter,
    resumes: Resumes,
    /// From the end of a connection to the hello of the next one.
    away: Times,
    restarted_at: Cell<Option<Instant>>,
    /// From the restart to the last hello.
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

    /// The restart begins.
    pub(super) fn count_from_now(&self) {
        self.restarted_at.set(Some(Instant::now()));
    }

    /// How many connections ended.
    pub(super) fn lost(&self) -> u64 {
        self.moved.get() + self.otherwise.get()
    }

    /// How many came back.
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

    fn note_return(&self, opened: &Opened, lost_at: Instant) {
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
    /// Comes back when the server said so (`retry`), and tries again until it has. What the connection ended with is counted.
    pub(super) async fn come_back(
        &self,
        setup: &Rc<Setup>,
        end: End,
        ticket: &Ticket,
        retry: Option<Duration>,
    ) -> Opened {
        let lost_at = Instant::now();
        if end.code() == CloseCode::Moved.code() {
            self.returns.moved.increment();
            self.subscribers.answering.ends.record(end);
        } else {
            self.returns.otherwise.increment();
            self.subscribers.answering.record_close(end);
        }
        let due = lost_at + retry.unwrap_or_else(some_pause);
        sleep_until(due).await;
        loop {
            match open(setup.clone(), Attempt::new(0, due, Some(ticket.clone()))).await {
                Ok(opened) => {
                    self.returns.note_return(&opened, lost_at);
                    if !opened.greeting.recovered {
                        setup.failures.record(&Failure::NotRecovered);
                    }
                    return opened;
                }
                Err(failure) => {
                    self.returns.refused.increment();
                    setup.failures.record(&failure);
                    sleep(some_pause()).await;
                }
            }
        }
    }
}

/// At random, so that not all come at once.
fn some_pause() -> Duration {
    PAUSE.mul_f64(rand::rng().random_range(0.1..1.0))
}
