use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use redis::RedisError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::messages;
use crate::engine::directory::DirectoryListener;
use crate::engine::redis::errors::describe;
use crate::engine::redis::keys::{RedisKeys, SessionKeys};

/// Maximum number of requests in flight, including reads of pages.
const MAX_REQUESTS: usize = 4096;

/// Maximum number of renewals in flight. They do not wait for other requests, because the lease must not end
/// while there are many.
const MAX_RENEWALS: usize = 4;

/// Maximum number of messages to other servers in flight.
const MAX_MESSAGES: usize = 1024;

/// State of the directory that the feed task uses as well.
#[derive(Debug)]
pub(in crate::engine::redis) struct DirectoryState {
    pub(super) keys: SessionKeys,
    /// Feed for messages to this server.
    feed: String,
    /// How long a session without a client can be resumed.
    pub(super) reconnect_window: Duration,
    requests: Arc<Semaphore>,
    renewals: Arc<Semaphore>,
    messages: Arc<Semaphore>,
    listener: OnceLock<Weak<dyn DirectoryListener>>,
    /// Whether Redis has refused a request since the last renewal of the lease, and this has been logged.
    is_refused: AtomicBool,
}

impl DirectoryState {
    pub(in crate::engine::redis) fn new(keys: &RedisKeys, server: &str, reconnect_window: Duration) -> Self {
        let [requests, renewals, messages] =
            [MAX_REQUESTS, MAX_RENEWALS, MAX_MESSAGES].map(|max| Arc::new(Semaphore::new(max)));
        Self {
            keys: keys.sessions(),
            feed: keys.server_messages(server),
            reconnect_window,
            requests,
            renewals,
            messages,
            listener: OnceLock::new(),
            is_refused: AtomicBool::new(false),
        }
    }

    /// Feed to which this server subscribes.
    pub(in crate::engine::redis) fn feed(&self) -> &str {
        &self.feed
    }

    /// Handles a message between servers. Returns false if `feed` is used for something else.
    pub(in crate::engine::redis) fn handle_message(&self, feed: &str, payload: &[u8]) -> bool {
        let is_own = feed == self.feed;
        if is_own
            && let Some((message, from)) = messages::parse(payload)
            && let Some(listener) = self.listener()
        {
            listener.receive(from, message);
        }
        is_own
    }

    /// Notifies the listener that there is a connection.
    pub(in crate::engine::redis) fn connected(&self) {
        if let Some(listener) = self.listener() {
            listener.connected();
        }
    }

    pub(super) fn set_listener(&self, listener: Weak<dyn DirectoryListener>) {
        assert!(self.listener.set(listener).is_ok(), "the listener is set once");
    }

    fn listener(&self) -> Option<Arc<dyn DirectoryListener>> {
        self.listener.get()?.upgrade()
    }

    /// Returns a permit for each of `count` requests, or fewer at the limit.
    pub(super) fn begin_requests(&self, count: usize) -> Vec<OwnedSemaphorePermit> {
        (0..count).map_while(|_| begin(&self.requests)).collect()
    }

    pub(super) fn begin_renewal(&self) -> Option<OwnedSemaphorePermit> {
        begin(&self.renewals)
    }

    pub(super) fn begin_message(&self) -> Option<OwnedSemaphorePermit> {
        begin(&self.messages)
    }

    /// Logs an error of Redis. Repeated errors are logged only after the next renewal of the lease.
    pub(super) fn record_refusal(&self, error: &RedisError) {
        if !self.is_refused.swap(true, Ordering::Relaxed) {
            let error = describe(error);
            tracing::warn!(error, "Redis refused a request for a session that servers share");
        }
    }

    pub(super) fn record_renewal(&self) {
        self.is_refused.store(false, Ordering::Relaxed);
    }
}

fn begin(permits: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    Arc::clone(permits).try_acquire_owned().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Mutex, PoisonError};

    use super::*;
    use crate::engine::directory::ServerMessage;

    #[derive(Debug, Default)]
    struct Received {
        messages: Mutex<Vec<(String, ServerMessage)>>,
        connects: AtomicUsize,
    }

    impl DirectoryListener for Received {
        fn receive(&self, from: &str, message: ServerMessage) {
            let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
            messages.push((from.to_owned(), message));
        }

        fn connected(&self) {
            self.connects.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn directory_state() -> DirectoryState {
        DirectoryState::new(&RedisKeys::new("p:", 0), "n_1", Duration::from_secs(30))
    }

    #[test]
    fn requests_and_messages_are_limited() {
        let state = directory_state();
        let mut permits = state.begin_requests(MAX_REQUESTS - 1);
        assert_eq!(permits.len(), MAX_REQUESTS - 1);
        permits.extend(state.begin_requests(2));
        assert_eq!((permits.len(), state.begin_requests(1).len()), (MAX_REQUESTS, 0));
        permits.truncate(MAX_REQUESTS - 3);
        assert_eq!(state.begin_requests(9).len(), 3);
        let renewals: Vec<_> = std::iter::from_fn(|| state.begin_renewal()).collect();
        let messages: Vec<_> = std::iter::from_fn(|| state.begin_message()).collect();
        assert_eq!((renewals.len(), messages.len()), (MAX_RENEWALS, MAX_MESSAGES));
    }

    #[test]
    fn listener_receives_messages_of_its_feed() {
        let state = directory_state();
        let text = messages::encode(ServerMessage::Release([7; 16]), "n_2");
        assert!(state.handle_message("p:nodes:n_1", &text), "there is no listener yet");
        let listener = Arc::new(Received::default());
        state.set_listener(Arc::downgrade(&(Arc::clone(&listener) as Arc<dyn DirectoryListener>)));
        state.connected();
        assert!(!state.handle_message("p:nodes:n_2", &text));
        assert!(state.handle_message("p:nodes:n_1", b"malformed"));
        assert!(state.handle_message("p:nodes:n_1", &text));
        let messages = listener.messages.lock().unwrap_or_else(PoisonError::into_inner).clone();
        assert_eq!(messages, [("n_2".to_owned(), ServerMessage::Release([7; 16]))]);
        assert_eq!(listener.connects.load(Ordering::Relaxed), 1);
        drop(listener);
        assert!(state.handle_message("p:nodes:n_1", &text), "the listener was dropped");
    }
}
