//! Restoring the state of the previous process, and saving it for the next one.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::client;
use crate::session::Channel;
use crate::snapshot::{self, ConsumedFile, LoadOutcome, ReservedFile, SnapshotLock, SnapshotState};

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

/// Creates the snapshot's file and moves the sessions. If the file cannot be created, logs an error, ends the
/// sessions, and returns `None`: clients must not receive `moved` for sessions that may be lost.
pub(crate) fn begin_move(path: &Path, client: &client::Services) -> Option<ReservedFile> {
    let reserved = reserve_snapshot(path, client);
    match &reserved {
        Some(_) => move_all(client),
        None => client.sessions.drain(),
    }
    reserved
}

/// Writes the snapshot. If this fails, ends the moved sessions, with their events and notices, and returns
/// `false`.
pub(crate) fn finish_move(path: &Path, file: ReservedFile, client: &client::Services) -> bool {
    let is_written = write_snapshot(path, file, client);
    if !is_written {
        client.logs.channels.reopen();
        client.sessions.subscriptions.join_leave().start();
        client.sessions.end_moved();
    }
    is_written
}

fn move_all(client: &client::Services) {
    // Close reminders before the channels, so that reminders that are due but not yet published are left to
    // the next process.
    client.reminders.close();
    client.sessions.subscriptions.join_leave().stop();
    client.logs.channels.close();
    client.sessions.move_all();
}

fn reserve_snapshot(path: &Path, client: &client::Services) -> Option<ReservedFile> {
    let reserved = ReservedFile::create(path, &snapshot_state(client));
    let log = |error: &io::Error| tracing::error!(path = %path.display(), %error, "cannot write the snapshot: sessions and reminders end, and so do channels in memory");
    reserved.inspect_err(log).ok()
}

fn write_snapshot(path: &Path, file: ReservedFile, client: &client::Services) -> bool {
    let path = path.display();
    let clock = client.timeouts.clock();
    let started = clock.uptime();
    match file.write(&snapshot_state(client), clock.unix_now()) {
        Ok((logs, sessions)) => {
            let took = clock.uptime().saturating_sub(started);
            tracing::info!(%path, logs, sessions, ?took, "snapshot written");
            true
        }
        Err(error) => {
            tracing::error!(%path, %error, "cannot write the snapshot, although clients have received `moved`: their sessions end");
            false
        }
    }
}
