//! The lock beside a snapshot, which one process has for as long as it lives.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::SnapshotSettings;
use crate::retry::Retry;

/// The right to read and write a snapshot, until this is dropped or the process ends, however it does.
#[derive(Debug)]
pub struct Claimed {
    settings: SnapshotSettings,
    _lock: File,
}

/// Why a snapshot cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The lock's file cannot be opened.
    #[error("cannot open {}: {error} (shutdown.snapshot)", path.display())]
    Open {
        /// The lock's file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// Another process has the lock.
    #[error("another process has {} (shutdown.snapshot)", path.display())]
    Taken {
        /// The lock's file.
        path: PathBuf,
    },
}

impl Claimed {
    /// Takes the lock. While another process has it, presumably the one that this follows, it waits: for `at_most`, or until `is_over`.
    ///
    /// # Errors
    /// [`ClaimError`].
    pub fn when_free(
        settings: &SnapshotSettings,
        at_most: Duration,
        is_over: impl FnMut() -> bool,
    ) -> Result<Self, ClaimError> {
        let path = beside(&settings.path, "lock");
        // It stays when the process ends: if it were removed, two processes could have a lock each.
        let opened = OpenOptions::new().create(true).append(true).mode(super::write::PRIVATE).open(&path);
        let lock = opened.map_err(|error| ClaimError::Open { path: path.clone(), error })?;
        let mut retry = Retry::new(at_most, is_over);
        loop {
            let say = |at_most| {
                tracing::warn!(path = %path.display(), ?at_most, "waiting for the process that has the snapshot");
            };
            match lock.try_lock() {
                Ok(()) => return Ok(Self { settings: settings.clone(), _lock: lock }),
                Err(TryLockError::Error(error)) => return Err(ClaimError::Open { path, error }),
                Err(TryLockError::WouldBlock) if retry.wait(say) => {}
                Err(TryLockError::WouldBlock) => return Err(ClaimError::Taken { path }),
            }
        }
    }

    pub(crate) fn settings(&self) -> &SnapshotSettings {
        &self.settings
    }
}

/// The file with this ending beside another.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_at_a_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = SnapshotSettings { path: folder.path().join("s"), max_age: Duration::ZERO };
        let claim = || Claimed::when_free(&settings, Duration::ZERO, || false);
        let first = claim().expect("free");
        let error = claim().expect_err("taken").to_string();
        assert!(error.starts_with("another process has ") && error.contains("s.lock"), "{error}");
        drop(first);
        drop(claim().expect("free again"));
        let nowhere = SnapshotSettings { path: folder.path().join("no/s"), ..settings };
        let error = Claimed::when_free(&nowhere, Duration::ZERO, || false).expect_err("no such folder");
        assert!(error.to_string().contains("shutdown.snapshot"), "{error}");
    }
}
