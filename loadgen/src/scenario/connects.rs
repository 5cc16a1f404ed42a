//! Connections that were opened, sessions that were resumed, and how long it took.

use encke_client::ClientFailure;
use tokio::time::Instant;

use super::OpenedConnection;
use crate::failures::Failures;
use crate::record::{Counter, Highest, Latency, Metrics};

#[derive(Debug)]
pub(super) struct Connects {
    pub(super) connected: Counter,
    /// Time until the hello, from when each attempt was due and from when it began.
    time: Latency,
}

impl Connects {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self { connected: metrics.counter("connected"), time: metrics.latency("connect") }
    }

    pub(super) fn record(&self, opened: &OpenedConnection) {
        self.connected.increment();
        self.time.record(opened.due, opened.began, opened.at);
    }
}

#[derive(Debug)]
pub(super) struct Resumes {
    pub(super) resumed: Counter,
    /// Time from the disconnect of all clients to the last hello.
    pub(super) all_back_seconds: Highest,
    time: Latency,
}

impl Resumes {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            resumed: metrics.counter("resumed"),
            all_back_seconds: metrics.highest("all_back_seconds"),
            time: metrics.latency("resume"),
        }
    }

    /// Records a hello after a disconnect. Returns whether the session was recovered. A new session is a failure.
    pub(super) fn record(&self, opened: &OpenedConnection, disconnect: Instant, failures: &Failures) -> bool {
        self.time.record(opened.due, opened.began, opened.at);
        if opened.greeting.recovered {
            self.resumed.increment();
            self.all_back_seconds.record(opened.at.saturating_duration_since(disconnect).as_secs_f64());
        } else {
            failures.record(&ClientFailure::NotRecovered);
        }
        opened.greeting.recovered
    }
}
