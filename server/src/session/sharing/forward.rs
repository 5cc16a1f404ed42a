//! Requests that another server has to answer: commands of clients whose sessions have connections there, and requests
//! to the admin API.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use encke_base::locks::Mutex;
use encke_broker::engine::ServerMessage;
use futures_util::future::BoxFuture;
use tokio::sync::{Semaphore, oneshot};

use super::SharedSessions;

/// How long a forwarded request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of requests that are being forwarded, and of requests from other servers that are being answered.
/// Others are refused, or remain unanswered.
const MAX_REQUESTS: usize = 1024;

/// Maximum number of requests of one kind that are being forwarded to one server, which may not answer.
const MAX_REQUESTS_PER_SERVER: usize = 256;

/// Kind of a request. The first byte of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// Commands of a client.
    Commands = 0,
    /// A request to the admin API.
    Api = 1,
}

/// Answers requests that other servers have forwarded.
pub(crate) trait ForwardedRequests: Send + Sync + 'static {
    fn answer(&self, request: Vec<u8>) -> BoxFuture<'static, Vec<u8>>;
}

/// Requests that are being forwarded.
pub(super) struct Forwarding {
    /// Handlers by [`RequestKind`].
    handlers: [OnceLock<Box<dyn ForwardedRequests>>; 2],
    pending: Mutex<HashMap<u64, PendingRequest>>,
    answering: Arc<Semaphore>,
}

struct PendingRequest {
    server: String,
    kind: RequestKind,
    reply: oneshot::Sender<Vec<u8>>,
}

/// Why a forwarded request has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotForwarded {
    /// Too many requests are being forwarded. This one was not sent.
    TooMany,
    /// There was no reply in time. The request may have been carried out.
    NoReply,
}

impl Forwarding {
    pub(super) fn new() -> Self {
        let answering = Arc::new(Semaphore::new(MAX_REQUESTS));
        Self { handlers: Default::default(), pending: Mutex::default(), answering }
    }
}

impl SharedSessions {
    /// Sets the handler of requests that other servers forward.
    pub(crate) fn set_request_handler(&self, kind: RequestKind, handler: Box<dyn ForwardedRequests>) {
        _ = self.forwarding.handlers[kind as usize].set(handler);
    }

    /// Returns the other servers that hold a lease.
    pub(crate) fn other_servers(&self) -> Vec<String> {
        let own = self.directory.server();
        self.servers.lock().iter().filter(|server| *server != own).cloned().collect()
    }

    /// Forwards a request to another server, and returns the reply.
    pub(crate) async fn forward(
        &self,
        server: &str,
        kind: RequestKind,
        request: &[u8],
    ) -> Result<Vec<u8>, NotForwarded> {
        let number = u64::from_ne_bytes(self.sessions.entropy.bytes());
        let (sender, reply) = oneshot::channel();
        {
            let mut pending = self.forwarding.pending.lock();
            pending.retain(|_, waiting| !waiting.reply.is_closed());
            let same = pending.values().filter(|waiting| waiting.server == server && waiting.kind == kind);
            if same.count() >= MAX_REQUESTS_PER_SERVER || pending.len() >= MAX_REQUESTS {
                return Err(NotForwarded::TooMany);
            }
            pending.insert(number, PendingRequest { server: server.to_owned(), kind, reply: sender });
        }
        let payload = [&[kind as u8], request].concat();
        self.directory.send(server, ServerMessage::Request { number, payload });
        let reply = self.timeouts.within(REQUEST_TIMEOUT, reply).await;
        reply.and_then(Result::ok).ok_or(NotForwarded::NoReply)
    }

    pub(super) fn receive_request(&self, from: &str, number: u64, payload: Vec<u8>) {
        let Some((kind, request)) = payload.split_first() else { return };
        let handler = self.forwarding.handlers.get(usize::from(*kind)).and_then(OnceLock::get);
        let Some(handler) = handler else { return };
        let Ok(permit) = Arc::clone(&self.forwarding.answering).try_acquire_owned() else { return };
        let (answer, from, directory) =
            (handler.answer(request.to_vec()), from.to_owned(), Arc::clone(&self.directory));
        self.executor.spawn(Box::pin(async move {
            let _permit = permit;
            let payload = answer.await;
            directory.send(&from, ServerMessage::Reply { number, payload });
        }));
    }

    pub(super) fn receive_reply(&self, number: u64, payload: Vec<u8>) {
        let waiting = self.forwarding.pending.lock().remove(&number);
        // The send fails if the client has left.
        if let Some(waiting) = waiting {
            _ = waiting.reply.send(payload);
        }
    }
}
