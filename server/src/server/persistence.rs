//! Restoring the state of the previous process, and saving it for the next one.

use std::io;
use std::sync::Arc;

use crate::client;
use crate::session::Channel;
use crate::snapshot::{self, ConsumedFile, LoadOutcome, SnapshotLock, SnapshotState};

/// Returns the state that a snapshot saves or restores.
pub(crate) fn snapshot_state(client: &client::Services) -> SnapshotState {
    SnapshotState {
        sessions: Arc::clone(&client.sessions),
        channels: Arc::clone(&client.logs.channels),
        reminders: Arc::clone(&client.reminders),
    }
}

/// Restores the state that the previous process has left. Returns the channels that the engine has to adopt,
/// and the snapshot file.
pub(super) fn restore(
    claimed: &SnapshotLock,
    client: &client::Services,
) -> io::Result<(Vec<Arc<Channel>>, Option<ConsumedFile>)> {
    let path = claimed.settings.path.display();
    match snapshot::load(&claimed.settings, &snapshot_state(client), client.timeouts.clock().unix_now())? {
        LoadOutcome::Absent => tracing::info!(%path, "no snapshot found; starting without sessions"),
        LoadOutcome::Restored { logs, sessions, skipped, age, channels, taken } => {
            tracing::info!(%path, logs, sessions, skipped, ?age, "snapshot restored");
            return Ok((channels, Some(taken)));
        }
        LoadOutcome::TooOld { aside, age } => {
            tracing::warn!(%path, ?age, aside = %aside.display(), "snapshot is too old and was set aside; starting without sessions");
        }
        LoadOutcome::Unreadable { aside, error } => {
            tracing::error!(%path, %error, aside = %aside.display(), "snapshot cannot be read and was set aside; starting without sessions");
        }
    }
    Ok((Vec::new(), None))
}

pub(super) fn write_snapshot(claimed: &SnapshotLock, client: &client::Services) {
    let path = &claimed.settings.path;
    let clock = client.timeouts.clock();
    let started = clock.uptime();
    match snapshot::write(path, &snapshot_state(client), clock.unix_now()) {
        Ok((logs, sessions)) => {
            let took = clock.uptime().saturating_sub(started);
            tracing::info!(path = %path.display(), logs, sessions, ?took, "snapshot written");
        }
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "cannot write the snapshot: sessions and reminders are lost, and so are channels in memory")
        }
    }
}
