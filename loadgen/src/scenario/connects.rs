//! Duration of connection setup and of resuming.

use super::OpenedConnection;
use crate::record::{Latency, Recorder};
use crate::result::{Distribution, summed};

/// Duration of connection setup, from when each attempt was due and from when it began.
#[derive(Debug, Default)]
pub(super) struct Connects(Latency);

impl Connects {
    pub(super) fn register(&self, recorder: &Recorder) {
        recorder.latency("connect", &self.0);
    }

    pub(super) fn record(&self, opened: &OpenedConnection) {
        self.0.record(opened.due, opened.began, opened.at);
    }

    pub(super) fn outcome(&self) -> ConnectsOutcome {
        ConnectsOutcome { connect_ms: self.0.since_due(), connect_from_start_ms: self.0.since_start() }
    }
}

summed! {
    pub(super) struct ConnectsOutcome {
        connect_ms: Distribution,
        connect_from_start_ms: Distribution,
    }
}

/// Duration of connection setup that resumes a session, measured in the same way.
#[derive(Debug, Default)]
pub(super) struct Resumes(Latency);

impl Resumes {
    pub(super) fn register(&self, recorder: &Recorder) {
        recorder.latency("resume", &self.0);
    }

    pub(super) fn record(&self, opened: &OpenedConnection) {
        self.0.record(opened.due, opened.began, opened.at);
    }

    pub(super) fn outcome(&self) -> ResumesOutcome {
        ResumesOutcome { resume_ms: self.0.since_due(), resume_from_start_ms: self.0.since_start() }
    }
}

summed! {
    pub(super) struct ResumesOutcome {
        resume_ms: Distribution,
        resume_from_start_ms: Distribution,
    }
}
