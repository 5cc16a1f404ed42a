//! A restart that sessions outlive: one file, which the process that ends writes and the next one reads.
//!
//! The file is a mark, then records, each with its length and a checksum: what the file is, the logs, the sessions (each after the logs that it
//! reads), the ends that clients were not told, users that were revoked, joins and leaves that were not told, reminders, and the end, which says how many logs and sessions there are. Kinds of records that a reader does not know are skipped, and so are fields that it
//! does not know; a major version that it does not know is refused.
//!
//! A file is read once: a start takes it away before it reads it, and puts it back only if it fails before anyone was served. Whoever has the lock writes and reads, so a start waits until the
//! process before it has written.

mod claim;
mod frames;
mod header;
mod load;
mod show;
mod write;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use claim::{ClaimError, Claimed};
pub use load::LoadError;
pub(crate) use load::{Loaded, Taken, load};
pub use show::show;
pub(crate) use write::write;
#[cfg(feature = "fuzzing")]
pub(crate) use {frames::framed, load::load_from, write::written};

use crate::reminders::Reminders;
use crate::session::{Channels, Sessions};

/// Where a snapshot is written, and how old one may be that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSettings {
    /// The file.
    pub path: PathBuf,
    /// An older one is set aside.
    pub max_age: Duration,
}

/// What is written down.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) channels: Arc<Channels>,
    pub(crate) reminders: Arc<Reminders>,
}
