use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::Kept;
use super::claim::beside;
use super::frames::{END, ENDED, HEADER, LOG, REMINDER, REVOKED, SESSION, TELLING, Writer};
use super::header::{End, Header, MAJOR};
use crate::channel::LogsWritten;
use crate::clock::UnixTime;

/// For the user of the server alone: messages and names are in it.
pub(super) const PRIVATE: u32 = 0o600;

/// What is written at a time.
const BUFFER_BYTES: usize = 256 * 1024;

/// Writes a snapshot. The file is there whole, or not at all. Returns how many logs and sessions are in it.
///
/// # Errors
/// Those of the system.
pub(crate) fn write(path: &Path, kept: &Kept, now: UnixTime) -> io::Result<(u64, u64)> {
    let unfinished = beside(path, "unfinished");
    let written = write_whole(&unfinished, kept, now).and_then(|end| {
        std::fs::rename(&unfinished, path)?;
        sync_folder(path)?;
        Ok((end.logs, end.sessions))
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    written
}

fn write_whole(path: &Path, kept: &Kept, now: UnixTime) -> io::Result<End> {
    let file = OpenOptions::new().create(true).write(true).truncate(true).mode(PRIVATE).open(path)?;
    // One that was left there may have had another mode.
    file.set_permissions(Permissions::from_mode(PRIVATE))?;
    let (out, end) = write_to(BufWriter::with_capacity(BUFFER_BYTES, file), kept, now)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    Ok(end)
}

/// Writes all records.
pub(super) fn write_to<W: Write>(out: W, kept: &Kept, now: UnixTime) -> io::Result<(W, End)> {
    let Kept { sessions, channels, reminders } = kept;
    let mut writer = Writer::new(out)?;
    writer.write(
        HEADER,
        &Header {
            major: MAJOR,
            written_ms: now.as_millis(),
            server: env!("CARGO_PKG_VERSION").to_owned(),
            next_channel: channels.numbers(),
            connections: sessions.connections(),
        },
    )?;
    let (mut end, mut written) = (End::default(), LogsWritten::default());
    channels.snapshot(&mut written, |log| {
        end.logs += 1;
        writer.write(LOG, log)
    })?;
    sessions.snapshot(|session, remembered| {
        // Some are in no table any more.
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
    for telling in sessions.snapshot_tellings() {
        writer.write(TELLING, &telling)?;
    }
    for reminder in reminders.records() {
        writer.write(REMINDER, &reminder)?;
    }
    writer.write(END, &end)?;
    Ok((writer.into_inner(), end))
}

/// The same in memory.
#[cfg(feature = "fuzzing")]
pub(crate) fn written(kept: &Kept, now: UnixTime) -> Vec<u8> {
    write_to(Vec::new(), kept, now).expect("memory takes everything").0
}

/// What was renamed stays so, whatever happens.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
