use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::KeySource;
use crate::auth::{BadKeySet, Key, parse_key_set};
use crate::outbound::{Client, OutboundError, Target};
use crate::timeouts::Timeouts;

/// The longest set, in bytes.
const LONGEST: usize = 256 * 1024;

/// Reads the set.
pub(super) enum Fetch {
    File(Box<Aside>),
    Url(Box<Url>),
}

/// A file is read beside the tasks, since it may block: one on another machine, or a pipe.
pub(super) struct Aside {
    path: Arc<Path>,
    timeout: Duration,
    timeouts: Arc<Timeouts>,
    /// One reader at a time: each that is blocked has a thread.
    turn: Arc<Semaphore>,
}

pub(super) struct Url {
    target: Target,
    client: Client,
    timeout: Duration,
}

/// Why there is no set.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotFetched {
    #[error(transparent)]
    Outbound(OutboundError),
    #[error("it answers {0}, not 200 OK")]
    Status(StatusCode),
    #[error("cannot be read: {0}")]
    File(io::Error),
    #[error("it blocks whoever reads it")]
    Blocks,
    #[error("is longer than {LONGEST} bytes")]
    TooLong,
    #[error(transparent)]
    Bad(BadKeySet),
}

impl Fetch {
    pub(super) fn new(source: KeySource, timeout: Duration, timeouts: &Arc<Timeouts>) -> Self {
        match source {
            KeySource::File(path) => {
                let (timeouts, turn) = (Arc::clone(timeouts), Arc::new(Semaphore::new(1)));
                Self::File(Box::new(Aside { path: path.into(), timeout, timeouts, turn }))
            }
            KeySource::Url(target, trust) => {
                // It is asked too seldom for a connection to be kept.
                let client = Client::new(*trust, Arc::clone(timeouts), 0, LONGEST);
                Self::Url(Box::new(Url { target, client, timeout }))
            }
        }
    }

    /// The keys, and how many more there are that are not for us.
    pub(super) async fn keys(&self) -> Result<(Vec<Key>, usize), NotFetched> {
        match self {
            Self::File(file) => file.read().await,
            Self::Url(url) => parse_key_set(&url.get().await?).map_err(NotFetched::Bad),
        }
    }
}

/// The keys in a file, and how many more it has that are not for us.
///
/// # Errors
/// [`NotFetched`].
pub(crate) fn read_keys(path: &Path) -> Result<(Vec<Key>, usize), NotFetched> {
    parse_key_set(&read(path)?).map_err(NotFetched::Bad)
}

impl Aside {
    async fn read(&self) -> Result<(Vec<Key>, usize), NotFetched> {
        let turn = Arc::clone(&self.turn).try_acquire_owned().map_err(|_| NotFetched::Blocks)?;
        let path = Arc::clone(&self.path);
        let read = spawn_blocking(move || {
            let _turn = turn;
            read_keys(&path)
        });
        let read = self.timeouts.within(self.timeout, read).await.ok_or(NotFetched::Blocks)?;
        read.unwrap_or_else(|error| Err(NotFetched::File(io::Error::other(error))))
    }
}

impl Url {
    async fn get(&self) -> Result<Bytes, NotFetched> {
        let reply = self.client.get(&self.target, self.timeout).await.map_err(NotFetched::Outbound)?;
        // Anything else, be it of success, is not the set.
        if reply.status == StatusCode::OK { Ok(reply.body) } else { Err(NotFetched::Status(reply.status)) }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, NotFetched> {
    let mut text = Vec::new();
    let file = File::open(path).map_err(NotFetched::File)?;
    file.take(LONGEST as u64 + 1).read_to_end(&mut text).map_err(NotFetched::File)?;
    if text.len() > LONGEST { Err(NotFetched::TooLong) } else { Ok(text) }
}

/// Where it is.
impl fmt::Debug for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => file.path.fmt(f),
            Self::Url(url) => url.target.fmt(f),
        }
    }
}
