//! Shutdown of one simulated process and start of the next.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::SimulatedServer;
use crate::server::persistence::{begin_move, finish_move, snapshot_state};
use crate::snapshot::{self, LoadOutcome, ReservedFile, SnapshotSettings};

/// File of a snapshot, with disk space reserved for it.
#[derive(Debug)]
pub struct ReservedSnapshot(ReservedFile);

/// Result of loading the snapshot at startup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreResult {
    /// There was no file.
    NoFile,
    /// A file was loaded.
    Restored {
        /// Number of restored sessions.
        sessions: usize,
        /// Number of records that were skipped in an intact file.
        skipped: usize,
    },
    /// The file is older than `max_age`.
    TooOld,
    /// The file cannot be read, for this reason.
    Unreadable(String),
}

impl SimulatedServer {
    /// Performs the first step of a shutdown: stops publishing, moves all sessions, and accepts no new ones. If
    /// the snapshot's file cannot be created, ends the sessions instead, and returns `None`.
    pub fn begin_shutdown(&self, path: &Path) -> Option<ReservedSnapshot> {
        self.public.stop.cancel();
        begin_move(path, &self.public.client).map(ReservedSnapshot)
    }

    /// Performs the last step of a shutdown: writes sessions and logs to the snapshot. If this fails, ends the
    /// sessions, and returns `false`.
    pub fn finish_shutdown(&self, path: &Path, file: ReservedSnapshot) -> bool {
        finish_move(path, file.0, &self.public.client)
    }

    /// Restores the snapshot of the previous process at startup, unless it is too old.
    ///
    /// # Errors
    /// I/O errors.
    pub fn restore(&self, path: &Path, max_age: Duration) -> io::Result<RestoreResult> {
        let settings = SnapshotSettings { path: path.to_owned(), max_age };
        let now = self.public.client.timeouts.clock().unix_now();
        let mut restored = Vec::new();
        let result = match snapshot::load(&settings, &snapshot_state(&self.public.client), now)? {
            LoadOutcome::Absent => RestoreResult::NoFile,
            LoadOutcome::Restored { sessions, skipped, channels, taken, .. } => {
                taken.remove()?;
                restored = channels;
                RestoreResult::Restored { sessions, skipped }
            }
            LoadOutcome::TooOld { .. } => RestoreResult::TooOld,
            LoadOutcome::Unreadable { error, .. } => RestoreResult::Unreadable(error.to_string()),
        };
        self.public.client.logs.engine.adopt_restored(restored);
        self.public.client.reminders.arm_restored();
        self.public.client.sessions.subscriptions.join_leave().start();
        Ok(result)
    }

    /// Completes a startup without a snapshot.
    pub fn start_empty(&self) {
        self.public.client.logs.engine.adopt_restored(Vec::new());
        self.public.client.sessions.subscriptions.join_leave().start();
    }
}
