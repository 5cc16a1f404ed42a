//! Consecutive polls on one connection.

use std::future::{Future, ready};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use super::Context;
use super::deadline::{ConnectionDeadline, RequestTimeout};
use super::sessionless::{
    IncomingSocket, SessionlessConnection, SocketTakeover, TakenSocket, UnconfirmedAnswer,
};
use crate::admission::OpenConnection;
use crate::client::Attachment;
use crate::connection::TcpSocket;
use crate::parking::ParkBackoff;
use crate::transport::poll::{
    Answered, ConnectResponseWriter, HeldPoll, JsonResponseWriter, PollContinuation,
};
use crate::transport::{poll, sse, websocket};

/// Spawns a task that serves a socket after a takeover. The task is only as large as the remaining work
/// requires.
pub(super) fn hand_over(
    served: TakenSocket,
    address: IpAddr,
    open_connection: OpenConnection,
    context: &Arc<Context>,
) {
    let context = Arc::clone(context);
    if let Some(first) =
        NextPoll::from_socket(served, ParkBackoff::default(), address, open_connection, context)
    {
        tokio::spawn(serve(first, true));
    }
}

/// Next poll to be held. It is boxed so that the task, which is as large as all its variables, need not have
/// space for it.
enum NextPoll {
    Json(Box<HeldPoll<TcpSocket, JsonResponseWriter, PollingSocket>>),
    Connect(Box<HeldPoll<TcpSocket, Box<ConnectResponseWriter>, PollingSocket>>),
}

/// State that a socket keeps from one poll to the next.
struct PollingSocket {
    address: IpAddr,
    open_connection: OpenConnection,
    _client_entry: OpenConnection,
    context: Arc<Context>,
}

impl NextPoll {
    /// Holds the poll until it is answered. Returns what is needed to wait for the next one.
    async fn hold(self) -> Option<(IncomingSocket, ParkBackoff, PollingSocket)> {
        match self {
            Self::Json(poll) => {
                let Answered { socket, read, backoff, continuation } = poll::serve(unbox(poll)).await?;
                Some((IncomingSocket::AfterPoll(socket, read, None), backoff, continuation))
            }
            Self::Connect(poll) => {
                let has_acknowledged = poll.protocol().writer.acknowledged.is_some();
                let unconfirmed = (!has_acknowledged).then(|| UnconfirmedAnswer::of(poll.attachment()));
                let Answered { socket, read, backoff, continuation } = poll::serve(unbox(poll)).await?;
                Some((IncomingSocket::AfterPoll(socket, read, unconfirmed), backoff, continuation))
            }
        }
    }

    fn attachment(&self) -> &Attachment {
        match self {
            Self::Json(poll) => poll.attachment(),
            Self::Connect(poll) => poll.attachment(),
        }
    }

    /// Returns the next poll. For a WebSocket or an event stream, spawns a separate task and returns `None`.
    fn from_socket(
        served: TakenSocket,
        backoff: ParkBackoff,
        address: IpAddr,
        open_connection: OpenConnection,
        context: Arc<Context>,
    ) -> Option<Self> {
        let TakenSocket { socket, read_already, takeover, client_entry } = served;
        let client = Arc::clone(&context.client);
        match takeover {
            SocketTakeover::Poll(accepted) => {
                let continuation =
                    PollingSocket { address, open_connection, _client_entry: client_entry, context };
                let poll = poll::open(socket, read_already, accepted, client, continuation);
                Some(Self::Json(Box::new(poll.with_backoff(backoff))))
            }
            SocketTakeover::Connect(accepted) => {
                let continuation =
                    PollingSocket { address, open_connection, _client_entry: client_entry, context };
                let poll = poll::open(socket, read_already, accepted, client, continuation);
                Some(Self::Connect(Box::new(poll.with_backoff(backoff))))
            }
            SocketTakeover::WebSocket(upgrade) => {
                tokio::spawn(websocket::serve(upgrade, ready(Some((socket, read_already))), client));
                None
            }
            SocketTakeover::Events(accepted) => {
                tokio::spawn(sse::serve(socket, accepted, client, client_entry));
                None
            }
        }
    }
}

impl PollContinuation<TcpSocket, JsonResponseWriter> for PollingSocket {
    fn continue_after_parking(
        poll: HeldPoll<TcpSocket, JsonResponseWriter, Self>,
    ) -> impl Future<Output: Send + 'static> + Send + 'static {
        serve(NextPoll::Json(Box::new(poll)), false)
    }
}

impl PollContinuation<TcpSocket, Box<ConnectResponseWriter>> for PollingSocket {
    fn continue_after_parking(
        poll: HeldPoll<TcpSocket, Box<ConnectResponseWriter>, Self>,
    ) -> impl Future<Output: Send + 'static> + Send + 'static {
        serve(NextPoll::Connect(Box::new(poll)), false)
    }
}

/// Holds a poll, answers it, and waits for the next one, until a poll is parked. All polls of the connection
/// share the parking backoff, so a client that is answered frequently keeps its task.
///
/// All polls of the connection also share this task. With one task per poll, polls that end at different
/// times would fragment the memory. The task has space for either one poll or the wait for the next one, and
/// for nothing twice. `is_new` is whether the first poll has yet to be counted against the rate limit.
#[expect(clippy::manual_async_fn, reason = "the function is recursive, so its bounds must be explicit")]
fn serve(mut next: NextPoll, mut is_new: bool) -> impl Future<Output = ()> + Send + 'static {
    async move {
        loop {
            if std::mem::replace(&mut is_new, true) {
                poll::count_request(next.attachment()).await;
            }
            // Do not name values that are moved elsewhere: the task would reserve space for them.
            let Some((socket, backoff, PollingSocket { address, open_connection, context, .. })) =
                next.hold().await
            else {
                return;
            };
            let timeout = RequestTimeout::new(&context, true);
            let stopped = pin!(context.stop.cancelled());
            let mut end = ConnectionDeadline::new(&timeout, None, stopped, &context);
            let mut arrival = SessionlessConnection {
                context: &context,
                address,
                handshake: None,
                open_connection: open_connection.clone(),
                timeout: &timeout,
            };
            let Some(served) = arrival.wait_for_takeover(socket, &mut end).await else { return };
            let next_poll =
                NextPoll::from_socket(served, backoff, address, open_connection, Arc::clone(&context));
            match next_poll {
                Some(poll) => next = poll,
                None => return,
            }
        }
    }
}

/// Frees the box, which would otherwise be kept as long as the variable that holds it.
#[expect(clippy::boxed_local, reason = "the box is freed here")]
fn unbox<T>(boxed: Box<T>) -> T {
    *boxed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the runtime's overhead, the task takes 512 bytes.
    #[test]
    fn polling_task_is_small() {
        fn size<F>(_: fn(NextPoll, bool) -> F) -> usize {
            size_of::<F>()
        }
        assert!(size(serve) <= 408, "{} bytes", size(serve));
    }
}
