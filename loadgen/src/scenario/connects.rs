//! How long connects take.

use super::Opened;
use crate::record::{Latency, Recorder};
use crate::result::Group;

/// From when each was due, and from when it was begun.
#[derive(Debug, Default)]
pub(super) struct Connects(Latency);

impl Connects {
    pub(super) fn register(&self, recorder: &Recorder) {
        recorder.latency("connect", &self.0);
    }

    pub(super) fn record(&self, opened: &Opened) {
        self.0.record(opened.due, opened.began, opened.at);
    }

    /// `connect_ms` and `connect_from_start_ms`.
    pub(super) fn outcome(&self) -> Group {
        self.0.summary("connect")
    }
}
