use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use encke_broker::channel::LogsWritten;
use encke_timeouts::clock::UnixTime;

use super::SnapshotState;
use super::frames::{END, ENDED, HEADER, LOG, PRESENCE_CHANGE, REMINDER, REVOKED, RecordWriter, SESSION};
use super::header::{MAJOR, SnapshotEnd, SnapshotHeader};
use super::lock::with_extension;

/// File mode that restricts access to the server's user: the file contains messages and user names.
pub(super) const PRIVATE: u32 = 0o600;

/// Size of the write buffer.
const BUFFER_BYTES: usize = 256 * 1024;

/// Writes a snapshot atomically: the file is either complete or absent. Returns the number of logs and
/// sessions in it.
///
/// # Errors
/// I/O errors.
pub(crate) fn write(path: &Path, kept: &SnapshotState, now: UnixTime) -> io::Result<(u64, u64)> {
    let unfinished = with_extension(path, "unfinished");
    let written = write_file(&unfinished, kept, now).and_then(|end| {
        std::fs::rename(&unfinished, path)?;
        sync_folder(path)?;
        Ok((end.logs, end.sessions))
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    written
}

fn write_file(path: &Path, kept: &SnapshotState, now: UnixTime) -> io::Result<SnapshotEnd> {
    let file = OpenOptions::new().create(true).write(true).truncate(true).mode(PRIVATE).open(path)?;
    // A file left over from an earlier attempt may have another mode.
    file.set_permissions(Permissions::from_mode(PRIVATE))?;
    let (out, end) = write_to(BufWriter::with_capacity(BUFFER_BYTES, file), kept, now)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    Ok(end)
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
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
