//! Snapshots, which preserve sessions across a restart: the old process writes a single file, and the new one
//! reads it.
//!
//! The file consists of magic bytes and records, each with a length and a checksum: the header, the logs, the
//! sessions (each after the logs that it reads), ended sessions whose clients were not notified, revoked
//! users, joins and leaves that were not published yet, reminders, positions of removed channels, and a final
//! record with the number of logs and sessions. Readers skip unknown kinds of records and unknown fields, and
//! reject an unknown major version.
//!
//! A snapshot is read once: startup moves the file away before reading it, and moves it back only if it fails
//! before any client was served. A lock is required for reading and writing, so startup waits until the
//! previous process has finished writing.

mod error;
mod frames;
mod header;
mod load;
mod lock;
mod show;
mod write;

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use error::LoadError;
pub(crate) use load::{ConsumedFile, LoadOutcome, load};
pub use lock::{SnapshotLock, SnapshotLockError};
pub use show::show;
pub(crate) use write::ReservedFile;
#[cfg(feature = "fuzzing")]
pub(crate) use {frames::frame_records, load::load_from, write::write_to_vec};

use rustix::fs::OFlags;

use crate::reminders::Reminders;
use crate::session::{Channels, Sessions};

/// Flag of open(2) that rejects a symbolic link in place of the file.
const NO_FOLLOW: i32 = OFlags::NOFOLLOW.bits().cast_signed();

/// Makes an attempt to open a FIFO fail instead of blocking.
const NONBLOCK: i32 = OFlags::NONBLOCK.bits().cast_signed();

/// Permissions that let other users than the owner change a directory.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Location of the snapshot and its maximum age.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSettings {
    pub path: PathBuf,
    /// Maximum age. An older snapshot is set aside.
    pub max_age: Duration,
}

impl SnapshotSettings {
    /// Returns a warning if other users can create files in the snapshot's directory.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let directory = directory_of(&self.path);
        let mode = directory.metadata().ok()?.mode();
        (mode & WRITABLE_BY_OTHERS != 0).then(|| {
            format!(
                "other users can write to the directory of shutdown.snapshot, {} (mode {:o}), and could forge sessions: \
                 use a directory that only the server's user can write to",
                directory.display(),
                mode & 0o7777
            )
        })
    }
}

/// Returns why a snapshot cannot be written at this path. A path that this process may not examine is
/// accepted, because the server may run as another user.
pub(crate) fn location_problem(path: &Path) -> Option<String> {
    let directory = directory_of(path);
    match directory.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Some(format!("the directory {} does not exist", directory.display()))
        }
        Ok(found) if !found.is_dir() => Some(format!("{} is not a directory", directory.display())),
        _ if path.is_dir() => Some(format!("{} is a directory: expected the path of a file", path.display())),
        _ => None,
    }
}

/// Returns the directory that contains the file.
fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// State that is saved in a snapshot.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotState {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) channels: Arc<Channels>,
    pub(crate) reminders: Arc<Reminders>,
}
