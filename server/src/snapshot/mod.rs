//! Snapshots, which preserve sessions across a restart: the old process writes a single file, and the new one
//! reads it.
//!
//! The file consists of magic bytes and records, each with a length and a checksum: the header, the logs, the
//! sessions (each after the logs that it reads), ended sessions whose clients were not notified, revoked
//! users, joins and leaves that were not published yet, reminders, and a final record with the number of logs
//! and sessions. Readers skip unknown kinds of records and unknown fields, and reject an unknown major
//! version.
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

use crate::reminders::Reminders;
use crate::session::{Channels, Sessions};

/// Location of the snapshot and its maximum age.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSettings {
    pub path: PathBuf,
    /// Maximum age. An older snapshot is set aside.
    pub max_age: Duration,
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
