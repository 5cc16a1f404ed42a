use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use encke_timeouts::Timeouts;
use hyper::StatusCode;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::KeySource;
use crate::auth::{BadKeySet, Key, parse_key_set};
use crate::outbound::{OutboundClient, OutboundError, Target};

/// Maximum size of a key set, in bytes.
const MAX_SET_BYTES: usize = 256 * 1024;

/// Fetches the key set.
pub(super) enum KeySetFetcher {
    File(Box<FileFetcher>),
    Url(Box<UrlFetcher>),
}

/// Reads a file on a blocking thread, since it may be on a network file system or be a pipe.
pub(super) struct FileFetcher {
    path: Arc<Path>,
    timeout: Duration,
    timeouts: Arc<Timeouts>,
    /// Allows one reader at a time: each blocked reader occupies a thread.
    reader_permit: Arc<Semaphore>,
}

pub(super) struct UrlFetcher {
    target: Target,
    client: OutboundClient,
    timeout: Duration,
}

/// Why the key set could not be fetched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error(transparent)]
    Outbound(OutboundError),
    #[error("the response has status {0}, not 200 OK")]
    Status(StatusCode),
    #[error("cannot be read: {0}")]
    File(io::Error),
    #[error("reading it blocks")]
    Blocked,
    #[error("is longer than {MAX_SET_BYTES} bytes")]
    TooLong,
    #[error(transparent)]
    Invalid(BadKeySet),
}

impl KeySetFetcher {
    pub(super) fn new(source: KeySource, timeout: Duration, timeouts: &Arc<Timeouts>) -> Self {
        match source {
            KeySource::File(path) => {
                let (timeouts, turn) = (Arc::clone(timeouts), Arc::new(Semaphore::new(1)));
                Self::File(Box::new(FileFetcher {
                    path: path.into(),
                    timeout,
                    timeouts,
                    reader_permit: turn,
                }))
            }
            KeySource::Url(target, trust) => {
                // Fetches are too rare to keep a connection open.
                let client = OutboundClient::new(*trust, Arc::clone(timeouts), 0, MAX_SET_BYTES);
                Self::Url(Box::new(UrlFetcher { target, client, timeout }))
            }
        }
    }

    /// Returns the usable keys, and the number of unusable ones.
    pub(super) async fn keys(&self) -> Result<(Vec<Key>, usize), FetchError> {
        match self {
            Self::File(file) => file.read().await,
            Self::Url(url) => parse_key_set(&url.get().await?).map_err(FetchError::Invalid),
        }
    }
}

/// Reads a key set from a file. Returns the usable keys, and the number of unusable ones.
///
/// # Errors
/// [`FetchError`].
pub(crate) fn read_keys(path: &Path) -> Result<(Vec<Key>, usize), FetchError> {
    parse_key_set(&read(path)?).map_err(FetchError::Invalid)
}

impl FileFetcher {
    async fn read(&self) -> Result<(Vec<Key>, usize), FetchError> {
        let turn = Arc::clone(&self.reader_permit).try_acquire_owned().map_err(|_| FetchError::Blocked)?;
        let path = Arc::clone(&self.path);
        let read = spawn_blocking(move || {
            let _turn = turn;
            read_keys(&path)
        });
        let read = self.timeouts.within(self.timeout, read).await.ok_or(FetchError::Blocked)?;
        read.unwrap_or_else(|error| Err(FetchError::File(io::Error::other(error))))
    }
}

impl UrlFetcher {
    async fn get(&self) -> Result<Bytes, FetchError> {
        let reply = self.client.get(&self.target, self.timeout).await.map_err(FetchError::Outbound)?;
        // Only a 200 carries the key set; a 204, for example, does not.
        if reply.status == StatusCode::OK { Ok(reply.body) } else { Err(FetchError::Status(reply.status)) }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, FetchError> {
    let mut text = Vec::new();
    let file = File::open(path).map_err(FetchError::File)?;
    file.take(MAX_SET_BYTES as u64 + 1).read_to_end(&mut text).map_err(FetchError::File)?;
    if text.len() > MAX_SET_BYTES { Err(FetchError::TooLong) } else { Ok(text) }
}

/// Shows the location of the key set.
impl fmt::Display for KeySetFetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => file.path.display().fmt(f),
            Self::Url(url) => url.target.fmt(f),
        }
    }
}
