//! Lock file next to a snapshot, held by one process for its whole lifetime.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use encke_base::process::Retry;

use super::{NO_FOLLOW, NONBLOCK, SnapshotSettings};

/// Exclusive right to read and write a snapshot. Released when dropped or when the process exits, even if it
/// crashes.
#[derive(Debug)]
pub struct SnapshotLock {
    pub(crate) settings: SnapshotSettings,
    _lock: File,
}

/// Why the snapshot cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotLockError {
    /// The lock file cannot be opened.
    #[error("cannot open {}: {error} (shutdown.snapshot)", path.display())]
    Open {
        /// Path of the lock file.
        path: PathBuf,
        error: io::Error,
    },
    /// Another process holds the lock.
    #[error("another process holds the lock {} (shutdown.snapshot)", path.display())]
    Locked {
        /// Path of the lock file.
        path: PathBuf,
    },
}

impl SnapshotLock {
    /// Takes the lock. If another process holds it (usually the predecessor of this process), waits until the
    /// lock is released, `at_most` has passed, or `is_over` returns true.
    ///
    /// # Errors
    /// [`SnapshotLockError`].
    pub fn acquire(
        settings: &SnapshotSettings,
        at_most: Duration,
        is_over: impl FnMut() -> bool,
    ) -> Result<Self, SnapshotLockError> {
        let path = with_extension(&settings.path, "lock");
        // The file is never removed: otherwise two processes could each hold a lock.
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(super::write::PRIVATE).custom_flags(NO_FOLLOW | NONBLOCK);
        let opened = options.open(&path);
        let lock = opened.map_err(|error| SnapshotLockError::Open { path: path.clone(), error })?;
        let mut retry = Retry::new(at_most, is_over);
        loop {
            let log_wait = |max_wait| {
                tracing::warn!(path = %path.display(), ?max_wait, "waiting for the process that holds the snapshot's lock");
            };
            match lock.try_lock() {
                Ok(()) => return Ok(Self { settings: settings.clone(), _lock: lock }),
                Err(TryLockError::Error(error)) => return Err(SnapshotLockError::Open { path, error }),
                Err(TryLockError::WouldBlock) if retry.wait(log_wait) => {}
                Err(TryLockError::WouldBlock) => return Err(SnapshotLockError::Locked { path }),
            }
        }
    }
}

/// Appends an extension to the path.
pub(super) fn with_extension(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_lock_at_a_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = SnapshotSettings { path: folder.path().join("s"), max_age: Duration::ZERO };
        let claim = || SnapshotLock::acquire(&settings, Duration::ZERO, || false);
        let first = claim().expect("free");
        let error = claim().expect_err("taken").to_string();
        assert!(error.starts_with("another process holds the lock ") && error.contains("s.lock"), "{error}");
        drop(first);
        drop(claim().expect("free again"));
        let (lock, victim) = (folder.path().join("s.lock"), folder.path().join("victim"));
        std::fs::remove_file(&lock).expect("the lock exists");
        std::os::unix::fs::symlink(&victim, &lock).expect("a link");
        claim().expect_err("a link is not followed");
        assert!(!victim.exists());
        std::fs::remove_file(&lock).expect("the link exists");
        assert!(std::process::Command::new("mkfifo").arg(&lock).status().is_ok_and(|made| made.success()));
        claim().expect_err("a FIFO does not block");
        let nowhere = SnapshotSettings { path: folder.path().join("no/s"), ..settings };
        let error = SnapshotLock::acquire(&nowhere, Duration::ZERO, || false).expect_err("no such folder");
        assert!(error.to_string().contains("shutdown.snapshot"), "{error}");
    }
}
