use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use encke_base::outbound::{OutboundClient, OutboundError, Target};
use encke_timeouts::Timeouts;
use hyper::StatusCode;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::KeySource;
use crate::auth::{BadKeySet, Key, parse_key_set};

/// Maximum size of a key set, in bytes.
const MAX_SET_BYTES: usize = 256 * 1024;

/// Fetches the key set.
pub(super) struct KeySetFetcher {
    source: FetchSource,
    timeout: Duration,
}

enum FetchSource {
    /// A file is read on a blocking thread, since it may be on a network file system or be a pipe.
    File {
        path: Arc<Path>,
        timeouts: Arc<Timeouts>,
        /// Allows one reader at a time: each blocked reader occupies a thread.
        reader_permit: Arc<Semaphore>,
    },
    Url(Box<(Target, OutboundClient)>),
}

/// Why the key set could not be fetched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error(transparent)]
    Outbound(#[from] OutboundError),
    #[error("the response has status {0}, not 200 OK")]
    Status(StatusCode),
    #[error("cannot be read: {0}")]
    File(#[from] io::Error),
    #[error("reading it blocks")]
    Blocked,
    #[error("is longer than {MAX_SET_BYTES} bytes")]
    TooLong,
    #[error(transparent)]
    Invalid(#[from] BadKeySet),
}

impl KeySetFetcher {
    pub(super) fn new(source: KeySource, timeout: Duration, timeouts: &Arc<Timeouts>) -> Self {
        let timeouts = Arc::clone(timeouts);
        let source = match source {
            KeySource::File(path) => {
                FetchSource::File { path: path.into(), timeouts, reader_permit: Arc::new(Semaphore::new(1)) }
            }
            // Fetches are too rare to keep a connection open.
            KeySource::Url(target, trust) => {
                let client = OutboundClient::new(*trust, timeouts, 0, MAX_SET_BYTES);
                FetchSource::Url(Box::new((target, client)))
            }
        };
        Self { source, timeout }
    }

    /// Returns the usable keys, and the number of unusable ones.
    pub(super) async fn keys(&self) -> Result<(Vec<Key>, usize), FetchError> {
        match &self.source {
            FetchSource::File { path, timeouts, reader_permit } => {
                let permit =
                    Arc::clone(reader_permit).try_acquire_owned().map_err(|_| FetchError::Blocked)?;
                let path = Arc::clone(path);
                let read = spawn_blocking(move || {
                    let _permit = permit;
                    read_keys(&path)
                });
                let read = timeouts.within(self.timeout, read).await.ok_or(FetchError::Blocked)?;
                read.unwrap_or_else(|error| Err(FetchError::File(io::Error::other(error))))
            }
            FetchSource::Url(url) => {
                let (target, client) = &**url;
                let reply = client.get(target, self.timeout).await?;
                // Only a 200 carries the key set; a 204, for example, does not.
                if reply.status != StatusCode::OK {
                    return Err(FetchError::Status(reply.status));
                }
                Ok(parse_key_set(&reply.body)?)
            }
        }
    }
}

/// Reads a key set from a file. Returns the usable keys, and the number of unusable ones.
///
/// # Errors
/// [`FetchError`].
pub(crate) fn read_keys(path: &Path) -> Result<(Vec<Key>, usize), FetchError> {
    Ok(parse_key_set(&read(path)?)?)
}

fn read(path: &Path) -> Result<Vec<u8>, FetchError> {
    let mut text = Vec::new();
    File::open(path)?.take(MAX_SET_BYTES as u64 + 1).read_to_end(&mut text)?;
    if text.len() > MAX_SET_BYTES { Err(FetchError::TooLong) } else { Ok(text) }
}

/// Shows the location of the key set.
impl fmt::Display for KeySetFetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            FetchSource::File { path, .. } => path.display().fmt(f),
            FetchSource::Url(url) => url.0.fmt(f),
        }
    }
}
