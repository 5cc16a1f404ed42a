//! How long connects take, told both ways.

use super::Opened;
use crate::histogram::Times;
use crate::report::Group;

/// From when each was due, which counts every delay, and from when it was begun, which hides those that made us begin
/// late: coordinated omission is the difference.
#[derive(Debug, Default)]
pub(super) struct Connects {
    response: Times,
    service: Times,
}

impl Connects {
    pub(super) fn record(&self, opened: &Opened) {
        self.response.record(opened.took());
        self.service.record(opened.at.saturating_duration_since(opened.began));
    }

    /// `connect_ms` and `connect_service_ms`.
    pub(super) fn outcome(&self) -> Group {
        Group::default()
            .with("connect_ms", self.response.summary())
            .with("connect_service_ms", self.service.summary())
    }
}
