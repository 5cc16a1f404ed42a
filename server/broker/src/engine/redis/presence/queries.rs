//! Presence queries that are waiting for replies.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;

use encke_base::entropy::Entropy;
use encke_base::locks::Mutex;
use tokio::sync::mpsc;

use super::pages::MAX_SERVERS;
use super::wire::ReceivedReply;
use crate::channel::PresencePage;

/// Maximum number of concurrent queries. Each takes a fifth of a second at most.
const MAX_QUERIES: usize = 256;

/// Maximum size of all buffered replies in bytes. A reply beyond it is ignored.
const MAX_REPLY_BYTES: usize = 16 * 1024 * 1024;

/// All [open queries](self).
#[derive(Clone, Debug, Default)]
pub(super) struct PresenceQueries(Arc<Mutex<OpenQueries>>);

#[derive(Debug, Default)]
struct OpenQueries {
    /// Queries by id.
    queries: HashMap<u64, OpenQuery>,
    /// Size of the buffered replies to all queries.
    bytes: usize,
}

#[derive(Debug)]
struct OpenQuery {
    replies: mpsc::Sender<(String, PresencePage)>,
    bytes: usize,
}

/// A query in progress, ended on drop.
#[derive(Debug)]
pub(super) struct PendingQuery {
    id: u64,
    replies: mpsc::Receiver<(String, PresencePage)>,
    queries: PresenceQueries,
}

impl PresenceQueries {
    /// Starts a query, unless the limit is reached. Its id is random, so replies cannot be forged in advance.
    pub(super) fn begin(&self, entropy: &Entropy) -> Option<PendingQuery> {
        let id = u64::from_ne_bytes(entropy.bytes());
        let mut open = self.0.lock();
        if open.queries.len() >= MAX_QUERIES {
            return None;
        }
        let (sender, replies) = mpsc::channel(MAX_SERVERS);
        open.queries.insert(id, OpenQuery { replies: sender, bytes: 0 });
        Some(PendingQuery { id, replies, queries: self.clone() })
    }

    /// Handles a reply with a size of `bytes`.
    pub(super) fn receive(&self, ReceivedReply { id, server, present }: ReceivedReply, bytes: usize) {
        let open = &mut *self.0.lock();
        let Some(query) = open.queries.get_mut(&id) else { return };
        if open.bytes + bytes <= MAX_REPLY_BYTES && query.replies.try_send((server, present)).is_ok() {
            query.bytes += bytes;
            open.bytes += bytes;
        }
    }
}

impl PendingQuery {
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Waits for the next reply, without a deadline.
    pub(super) async fn next(&mut self) -> (String, PresencePage) {
        poll_fn(|task| match self.replies.poll_recv(task) {
            std::task::Poll::Ready(Some(reply)) => std::task::Poll::Ready(reply),
            // The sender lives as long as this query.
            _ => std::task::Poll::Pending,
        })
        .await
    }
}

impl Drop for PendingQuery {
    fn drop(&mut self) {
        let open = &mut *self.queries.0.lock();
        if let Some(query) = open.queries.remove(&self.id) {
            open.bytes -= query.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn reply(id: u64, server: &str) -> ReceivedReply {
        ReceivedReply { id, server: server.to_owned(), present: PresencePage::default() }
    }

    #[test]
    fn reply_is_assigned_to_its_query() {
        let (queries, entropy) = (PresenceQueries::default(), Entropy::system());
        let mut one = queries.begin(&entropy).expect("room");
        let mut other = queries.begin(&entropy).expect("room");
        queries.receive(reply(other.id(), "a"), 10);
        queries.receive(reply(other.id().wrapping_add(1), "b"), 10);
        assert_eq!(other.next().now_or_never(), Some(("a".to_owned(), PresencePage::default())));
        assert_eq!((one.next().now_or_never(), other.next().now_or_never()), (None, None));
        let id = one.id();
        drop(one);
        queries.receive(reply(id, "a"), 10);
        assert_eq!(queries.0.lock().bytes, 10);
        drop(other);
        assert_eq!(queries.0.lock().bytes, 0);
    }

    #[test]
    fn queries_and_replies_are_limited() {
        let (queries, entropy) = (PresenceQueries::default(), Entropy::system());
        let mut all: Vec<_> = std::iter::from_fn(|| queries.begin(&entropy)).collect();
        assert_eq!(all.len(), MAX_QUERIES);
        // The bytes of all replies and the number of replies to one query are limited as well.
        queries.receive(reply(all[0].id(), "a"), MAX_REPLY_BYTES);
        queries.receive(reply(all[1].id(), "a"), 1);
        assert_eq!(all[1].next().now_or_never(), None);
        drop(all.remove(0));
        for _ in 0..=MAX_SERVERS {
            queries.receive(reply(all[0].id(), "a"), 1);
        }
        assert_eq!(queries.0.lock().bytes, MAX_SERVERS);
        assert!(queries.begin(&entropy).is_some());
    }
}
