use std::collections::HashSet;
use std::error::Error;
use std::fs::{File, rename};
use std::io::{self, BufReader, Read, Seek};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use encke_broker::channel::{LogRecord, PositionRecord, RestoredLogs};
use encke_core::session::Outbox;
use encke_timeouts::clock::UnixTime;

use super::error::LoadError;
use super::frames::{
    END, ENDED, HEADER, LOG, POSITIONS, PRESENCE_CHANGE, REMINDER, REVOKED, RecordReader, SESSION,
};
use super::header::{MAJOR, SnapshotEnd, SnapshotHeader};
use super::lock::with_extension;
use super::write::sync_folder;
use super::{NO_FOLLOW, SnapshotSettings, SnapshotState};
use crate::auth::RevocationRecord;
use crate::reminders::ReminderRecord;
use crate::session::{Channel, RestoredSessions, SessionRef, StoredEnd, StoredNotice, StoredSession};

/// Result of looking for a snapshot at startup.
#[derive(Debug)]
pub(crate) enum LoadOutcome {
    /// There is no snapshot.
    Absent,
    /// The snapshot was restored. Contains the number of logs, of sessions, and of records skipped although
    /// the file is intact. The engine takes over the channels.
    Restored {
        logs: usize,
        sessions: usize,
        skipped: usize,
        age: Duration,
        channels: Vec<Arc<Channel>>,
        taken: ConsumedFile,
    },
    /// The snapshot exceeds the maximum age and was moved to `aside`.
    TooOld { aside: PathBuf, age: Duration },
    /// The snapshot cannot be read. It is now at `aside`, or at its temporary path if it could not be moved.
    Unreadable { aside: PathBuf, error: LoadError },
}

/// Snapshot file that was moved away and read during startup. Dropping it moves the file back, so that the
/// next start finds it: this start has failed before any client was served.
#[derive(Debug)]
pub(crate) struct ConsumedFile {
    path: PathBuf,
    taken: PathBuf,
    is_removed: bool,
}

impl ConsumedFile {
    /// Deletes the file. Must be called before the first client is served, because the file's contents are
    /// outdated from then on.
    ///
    /// # Errors
    /// The I/O error if the file cannot be removed.
    pub(crate) fn remove(mut self) -> io::Result<()> {
        std::fs::remove_file(&self.taken)?;
        self.is_removed = true;
        Ok(())
    }
}

impl Drop for ConsumedFile {
    fn drop(&mut self) {
        if self.is_removed {
            return;
        }
        let Self { path, taken, .. } = &*self;
        match rename(taken, path).and_then(|()| sync_folder(path)) {
            Ok(()) => {
                tracing::warn!(path = %path.display(), "snapshot moved back for the next start, because this start failed")
            }
            Err(error) => {
                tracing::error!(path = %taken.display(), %error, "cannot move the snapshot back for the next start, after this start failed")
            }
        }
    }
}

/// Restores the state from a snapshot. The file is moved away first, so that it is never read twice.
///
/// # Errors
/// The I/O error if the file cannot be moved.
pub(crate) fn load(
    settings: &SnapshotSettings,
    kept: &SnapshotState,
    now: UnixTime,
) -> io::Result<LoadOutcome> {
    let path = &settings.path;
    // Leave anything but a regular file where it is. This is mainly for a directory that was configured
    // instead of a file in it, and for a symbolic link.
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::other(format!("{} is not a regular file", path.display())));
    }
    let taken = with_extension(path, "taken");
    match rename(path, &taken) {
        Ok(()) => sync_folder(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LoadOutcome::Absent),
        Err(error) => return Err(error),
    }
    let set_aside = |ending| {
        let aside = with_extension(path, ending);
        let moved = rename(&taken, &aside);
        if moved.is_ok() { aside } else { taken.clone() }
    };
    let opened = File::options().read(true).custom_flags(NO_FOLLOW).open(&taken);
    let loaded = opened.map_err(LoadError::from).and_then(|mut file| {
        let header = check(BufReader::new(&file))?;
        let age = now.since(UnixTime::since_epoch(Duration::from_millis(header.written_ms)));
        if age > settings.max_age {
            return Ok(LoadOutcome::TooOld { aside: set_aside("stale"), age });
        }
        file.rewind()?;
        let (RestoreCounts { logs, sessions, skipped }, channels) = apply(BufReader::new(&file), kept)?;
        let taken = ConsumedFile { path: path.clone(), taken: taken.clone(), is_removed: false };
        Ok(LoadOutcome::Restored { logs, sessions, skipped, age, channels, taken })
    });
    match loaded {
        Ok(loaded) => Ok(loaded),
        Err(error) => Ok(LoadOutcome::Unreadable { aside: set_aside(error.extension()), error }),
    }
}

/// Restores the state from a snapshot in memory.
#[cfg(feature = "fuzzing")]
pub(crate) fn load_from(bytes: &[u8], kept: &SnapshotState) -> Result<(), LoadError> {
    check(bytes)?;
    let (_, restored) = apply(bytes, kept)?;
    kept.channels.reset_epoch(restored.iter().filter(|channel| channel.is_remote()));
    Ok(())
}

/// Validates every record, so that a damaged file changes nothing.
pub(super) fn check(from: impl Read) -> Result<SnapshotHeader, LoadError> {
    let mut header = None;
    let (mut found, mut logs) = (SnapshotEnd::default(), HashSet::new());
    for_each_record(from, |reader, record| {
        match record {
            SnapshotRecord::Header(read) => header = Some(read),
            SnapshotRecord::Log(log) => {
                found.logs += 1;
                if !logs.insert(log.number) {
                    return Err(reader.damaged("duplicate log"));
                }
            }
            SnapshotRecord::Session(session) => {
                found.sessions += 1;
                let outbox = &session.machine.outbox;
                let known = |log, _, _| logs.contains(&log).then_some(());
                Outbox::restore(outbox, 1, known).map_err(|error| reader.damaged(error))?;
            }
            SnapshotRecord::Ended(_)
            | SnapshotRecord::Revoked(_)
            | SnapshotRecord::Reminder(_)
            | SnapshotRecord::PresenceChange(_)
            | SnapshotRecord::Positions(_) => {}
        }
        Ok(())
    })
    .and_then(|(reader, end)| {
        if end != found {
            return Err(reader.damaged("records are missing"));
        }
        header.ok_or_else(|| reader.damaged("the first record is missing"))
    })
}

/// Maximum number of skipped records that are logged. The others are only counted.
const MAX_LOGGED_SKIPS: usize = 10;

/// Number of restored logs and sessions.
#[derive(Clone, Copy, Debug, Default)]
struct RestoreCounts {
    logs: usize,
    sessions: usize,
    /// Number of records skipped because a limit is reached or because they contradict other records.
    skipped: usize,
}

fn apply(from: impl Read, kept: &SnapshotState) -> Result<(RestoreCounts, Vec<Arc<Channel>>), LoadError> {
    let SnapshotState { sessions, channels, reminders } = kept;
    let mut counts = RestoreCounts::default();
    let mut logs = RestoredLogs::<SessionRef>::default();
    let mut restored = RestoredSessions::default();
    for_each_record(from, |reader, record| {
        let restore = || -> Result<(), Box<dyn Error>> {
            match record {
                SnapshotRecord::Header(header) => {
                    sessions.restore_connections(header.connections);
                    if let Some(users) = header.users {
                        sessions.continue_users(users);
                    }
                    channels.restore_numbers(header.next_channel)?;
                }
                SnapshotRecord::Log(log) => {
                    counts.logs += 1;
                    channels.restore(log, &mut logs)?;
                }
                SnapshotRecord::Session(session) => sessions.restore(*session, &mut logs, &mut restored)?,
                SnapshotRecord::Ended(ended) => sessions.restore_end(&ended)?,
                SnapshotRecord::Revoked(revoked) => sessions.revocations().restore(&revoked)?,
                SnapshotRecord::PresenceChange(telling) => {
                    sessions.subscriptions.join_leave().restore(&telling)?
                }
                SnapshotRecord::Positions(positions) => channels.restore_positions(&positions)?,
                SnapshotRecord::Reminder(reminder) => {
                    let of_key = |error| format!("reminder {:?}: {error}", reminder.key);
                    reminders.restore(&reminder).map_err(of_key)?;
                }
            }
            Ok(())
        };
        if let Err(problem) = restore() {
            counts.skipped += 1;
            if counts.skipped <= MAX_LOGGED_SKIPS {
                tracing::error!(error = %reader.damaged(problem), "snapshot record skipped");
            }
        }
        Ok(())
    })?;
    counts.sessions = restored.len();
    let channels = channels.finish_restore(logs);
    sessions.settle(restored);
    Ok((counts, channels))
}

pub(super) enum SnapshotRecord {
    Header(SnapshotHeader),
    Log(LogRecord),
    Session(Box<StoredSession>),
    Ended(StoredEnd),
    Revoked(RevocationRecord),
    Reminder(ReminderRecord),
    PresenceChange(StoredNotice),
    /// Positions of removed channels.
    Positions(Vec<PositionRecord>),
}

/// Passes every record but the last to `visit`. Returns the reader, positioned after the last record, and
/// that record.
pub(super) fn for_each_record<R: Read>(
    from: R,
    mut visit: impl FnMut(&RecordReader<R>, SnapshotRecord) -> Result<(), LoadError>,
) -> Result<(RecordReader<R>, SnapshotEnd), LoadError> {
    let mut reader = RecordReader::new(from)?;
    let mut is_first = true;
    loop {
        let kind = reader.next()?.ok_or_else(|| reader.damaged("the file ends before the last record"))?;
        if is_first != (kind == HEADER) {
            return Err(reader.damaged("the header is missing or repeated"));
        }
        is_first = false;
        match kind {
            HEADER => {
                let header: SnapshotHeader = reader.decode()?;
                if header.major != MAJOR {
                    return Err(LoadError::Newer { major: header.major });
                }
                visit(&reader, SnapshotRecord::Header(header))?;
            }
            LOG => visit(&reader, SnapshotRecord::Log(reader.decode()?))?,
            SESSION => visit(&reader, SnapshotRecord::Session(Box::new(reader.decode()?)))?,
            REVOKED => visit(&reader, SnapshotRecord::Revoked(reader.decode()?))?,
            REMINDER => visit(&reader, SnapshotRecord::Reminder(reader.decode()?))?,
            PRESENCE_CHANGE => visit(&reader, SnapshotRecord::PresenceChange(reader.decode()?))?,
            POSITIONS => visit(&reader, SnapshotRecord::Positions(reader.decode()?))?,
            ENDED => visit(&reader, SnapshotRecord::Ended(reader.decode()?))?,
            END => {
                let end = reader.decode()?;
                return match reader.next()? {
                    None => Ok((reader, end)),
                    Some(_) => Err(reader.damaged("the record follows the last one")),
                };
            }
            _ => {}
        }
    }
}

/// Opens a snapshot for reading without moving it.
pub(super) fn open(path: &Path) -> io::Result<BufReader<File>> {
    File::open(path).map(BufReader::new)
}
