use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use encke_base::entropy::Entropy;
use tokio::sync::Semaphore;

use super::queries::PresenceQueries;
use crate::channel::new_epoch;
use crate::engine::redis::keys::RedisKeys;

/// Maximum number of replies in flight from this server. Additional queries are ignored.
const MAX_REPLIES: usize = 256;

/// This server's state as one of several that share channels.
#[derive(Debug)]
pub(in crate::engine::redis) struct Peers {
    /// Name of this server, random for each process.
    pub(super) server: String,
    /// Feed for queries to all servers, and feed for replies to this one.
    pub(super) feeds: [String; 2],
    pub(super) queries: PresenceQueries,
    pub(super) replies: Arc<Semaphore>,
    /// Whether this server is shutting down.
    pub(super) is_leaving: AtomicBool,
    /// Whether Redis has refused a lease and this has been logged.
    pub(super) lease_refused: Arc<AtomicBool>,
}

impl Peers {
    pub(in crate::engine::redis) fn new(keys: &RedisKeys, entropy: &Entropy) -> Self {
        let server = format!("n_{}", new_epoch(entropy));
        Self {
            feeds: [keys.presence_queries(), keys.presence_replies(&server)],
            server,
            queries: PresenceQueries::default(),
            replies: Arc::new(Semaphore::new(MAX_REPLIES)),
            is_leaving: AtomicBool::new(false),
            lease_refused: Arc::default(),
        }
    }

    /// Name of this server.
    pub(in crate::engine::redis) fn server(&self) -> &str {
        &self.server
    }

    /// Feeds to which this server subscribes for queries and replies.
    pub(in crate::engine::redis) fn feeds(&self) -> &[String] {
        &self.feeds
    }
}
