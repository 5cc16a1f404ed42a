use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use encke_broker::channel::LogsWritten;
use encke_timeouts::clock::UnixTime;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};

use super::frames::{
    END, ENDED, HEADER, LOG, POSITIONS, PRESENCE_CHANGE, REMINDER, REVOKED, RecordWriter, SESSION,
};
use super::header::{MAJOR, SnapshotEnd, SnapshotHeader};
use super::lock::with_extension;
use super::{SnapshotState, directory_of};

/// File mode that restricts access to the server's user: the file contains messages and user names.
pub(super) const PRIVATE: u32 = 0o600;

/// Size of the write buffer.
const BUFFER_BYTES: usize = 256 * 1024;

/// Size of a log's record without its messages, or of a reminder's.
const RECORD_BYTES: usize = 512;

/// Size of the position of a removed channel.
const POSITION_BYTES: usize = 32;

/// Number of positions in a record.
const POSITIONS_PER_RECORD: usize = 1024;

/// Empty file that will become a snapshot, on a disk that has room for it. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct ReservedFile {
    path: PathBuf,
    unfinished: PathBuf,
    file: File,
}

impl ReservedFile {
    /// Creates the file, and allocates disk space for the estimated size of the snapshot.
    ///
    /// # Errors
    /// I/O errors, for example if the disk is full.
    pub(crate) fn create(path: &Path, kept: &SnapshotState) -> io::Result<Self> {
        let unfinished = with_extension(path, "unfinished");
        // An earlier process may have left a file, with another mode. Exclusive creation follows no symbolic
        // link, so it neither changes nor exposes another file.
        match std::fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().create_new(true).write(true).mode(PRIVATE).open(&unfinished)?;
        let reserved = Self { path: path.to_owned(), unfinished, file };
        let bytes = estimate(kept);
        match retry_on_intr(|| fallocate(&reserved.file, FallocateFlags::empty(), 0, bytes)) {
            // The file system cannot reserve space.
            Ok(()) | Err(Errno::OPNOTSUPP) => Ok(reserved),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a snapshot atomically: the file is either complete or absent. Returns the number of logs and
    /// sessions in it.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn write(self, kept: &SnapshotState, now: UnixTime) -> io::Result<(u64, u64)> {
        let (mut out, end) = write_to(BufWriter::with_capacity(BUFFER_BYTES, &self.file), kept, now)?;
        let bytes = out.stream_position()?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?;
        self.file.set_len(bytes)?;
        self.file.sync_all()?;
        std::fs::rename(&self.unfinished, &self.path)?;
        // The sessions of a snapshot that may be lost end now, so the next process must not restore them.
        sync_folder(&self.path).inspect_err(|_| drop(std::fs::remove_file(&self.path)))?;
        Ok((end.logs, end.sessions))
    }
}

impl Drop for ReservedFile {
    fn drop(&mut self) {
        // After the rename, no file has this name.
        let _ = std::fs::remove_file(&self.unfinished);
    }
}

/// Estimates the size of a snapshot, usually too high. If it is too low, writing may fail.
fn estimate(kept: &SnapshotState) -> u64 {
    let SnapshotState { sessions, channels, reminders } = kept;
    let records = channels.len().saturating_add(reminders.len()).saturating_add(1);
    let positions = channels.kept_position_count().saturating_mul(POSITION_BYTES);
    let bytes =
        records.saturating_mul(RECORD_BYTES).saturating_add(channels.bytes()).saturating_add(positions);
    bytes.saturating_add(sessions.estimate_snapshot()) as u64
}

pub(super) fn write_to<W: Write>(
    out: W,
    kept: &SnapshotState,
    now: UnixTime,
) -> io::Result<(W, SnapshotEnd)> {
    let SnapshotState { sessions, channels, reminders } = kept;
    let mut writer = RecordWriter::new(out)?;
    writer.write(
        HEADER,
        &SnapshotHeader {
            major: MAJOR,
            written_ms: now.as_millis(),
            server: env!("CARGO_PKG_VERSION").to_owned(),
            next_channel: channels.number_bound(),
            connections: sessions.connections(),
            users: sessions.name_of_users(),
        },
    )?;
    let (mut end, mut written) = (SnapshotEnd::default(), LogsWritten::default());
    channels.snapshot(&mut written, |log| {
        end.logs += 1;
        writer.write(LOG, log)
    })?;
    sessions.snapshot(|session, remembered| {
        // A session may refer to logs that are no longer in the table.
        for channel in remembered {
            if let Some(log) = channels.snapshot_of(channel, &mut written) {
                end.logs += 1;
                writer.write(LOG, &log)?;
            }
        }
        end.sessions += 1;
        writer.write(SESSION, session)
    })?;
    for ended in sessions.snapshot_ends() {
        writer.write(ENDED, &ended)?;
    }
    for revoked in sessions.revocations().records() {
        writer.write(REVOKED, &revoked)?;
    }
    for telling in sessions.subscriptions.join_leave().snapshot() {
        writer.write(PRESENCE_CHANGE, &telling)?;
    }
    for reminder in reminders.records() {
        writer.write(REMINDER, &reminder)?;
    }
    for positions in channels.kept_positions().chunks(POSITIONS_PER_RECORD) {
        writer.write(POSITIONS, &positions)?;
    }
    writer.write(END, &end)?;
    Ok((writer.into_inner(), end))
}

/// Writes a snapshot to memory.
#[cfg(feature = "fuzzing")]
pub(crate) fn write_to_vec(kept: &SnapshotState, now: UnixTime) -> Vec<u8> {
    write_to(Vec::new(), kept, now).expect("writing to memory cannot fail").0
}

/// Syncs the directory, so that a rename in it survives a crash.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(directory_of(path))?.sync_all()
}
