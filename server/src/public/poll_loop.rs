//! The tasks of a connection: one until it has a session, and one for all of its polls.

use std::future::{Future, ready};
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use encke_base::parking::ParkBackoff;
use tokio::net::TcpStream;

use super::context::Context;
use super::deadline::RequestTimeout;
use super::routing::{SessionlessConnection, SocketTakeover};
use super::sessionless::{IncomingSocket, TakenSocket};
use crate::admission::{Handshake, OpenConnection};
use crate::client::Attachment;
use crate::connection::transport::poll::{Answered, HeldPoll, HeldRequest};
use crate::connection::transport::{poll, sse, websocket};
use crate::connection::{Parkable, Socket, TcpSocket};

/// Serves a connection in a new task. Until the client sends something, the task is small, and nothing else
/// is allocated.
pub(super) fn spawn(
    socket: TcpStream,
    peer: IpAddr,
    handshake: Handshake,
    open_connection: OpenConnection,
    context: Arc<Context>,
) {
    let timeout = RequestTimeout::new(&context, socket.as_raw_fd());
    tokio::spawn(async move {
        let mut arrival = SessionlessConnection {
            context: &context,
            address: peer,
            handshake: &handshake,
            open_connection,
            timeout: &timeout,
        };
        let Some(taken) = arrival.wait_for_takeover(IncomingSocket::New(socket)).await else {
            return;
        };
        let SessionlessConnection { address, open_connection, .. } = arrival;
        let context = Arc::clone(&context);
        // This task ends here: the next one is only as large as the remaining work requires.
        if let Some(first) = next_poll(taken, ParkBackoff::default(), address, open_connection, context) {
            tokio::spawn(serve(first, true));
        }
    });
}

type NextPoll = HeldPoll<TcpSocket, PollingSocket>;

/// State that a socket keeps from one poll to the next.
struct PollingSocket {
    address: IpAddr,
    open_connection: OpenConnection,
    _client_entry: OpenConnection,
    context: Arc<Context>,
}

/// Returns the next poll. For a WebSocket or an event stream, spawns a separate task and returns `None`.
fn next_poll(
    taken: TakenSocket,
    backoff: ParkBackoff,
    address: IpAddr,
    open_connection: OpenConnection,
    context: Arc<Context>,
) -> Option<Box<NextPoll>> {
    let TakenSocket { socket, read_already, takeover, client_entry } = taken;
    let client = Arc::clone(&context.client);
    match takeover {
        SocketTakeover::Poll(accepted) => {
            let continuation =
                PollingSocket { address, open_connection, _client_entry: client_entry, context };
            let mut poll = poll::open(socket, read_already, accepted, client, continuation);
            poll.backoff = backoff;
            return Some(Box::new(poll));
        }
        SocketTakeover::WebSocket(upgrade) => {
            tokio::spawn(websocket::serve(upgrade, ready(Some((socket, read_already))), client));
        }
        SocketTakeover::Events(accepted) => {
            tokio::spawn(sse::serve(socket, accepted, client, client_entry));
        }
    }
    None
}

impl Parkable<TcpSocket> for HeldRequest<PollingSocket> {
    fn run(poll: NextPoll) -> impl Future<Output: Send + 'static> + Send + 'static {
        serve(Box::new(poll), false)
    }
}

/// Holds a poll, answers it, and waits for the next one, until a poll is parked. All polls of the connection
/// share the parking backoff, so a client that is answered frequently keeps its task.
///
/// All polls of the connection also share this task. With one task per poll, polls that end at different
/// times would fragment the memory. The task has space for either one poll or the wait for the next one, and
/// for nothing twice. `is_new` is whether the first poll has yet to be counted against the rate limit.
///
/// The next poll is boxed, so that the task, which is as large as all its variables, need not have space for
/// it twice.
#[expect(clippy::manual_async_fn, reason = "the function is recursive, so its bounds must be explicit")]
fn serve(mut next: Box<NextPoll>, mut is_new: bool) -> impl Future<Output = ()> + Send + 'static {
    async move {
        loop {
            if std::mem::replace(&mut is_new, true) {
                {
                    let Attachment { services, session, .. } = &next.attachment;
                    services.count_request(session).await;
                }
            }
            // Do not name values that are moved elsewhere: the task would reserve space for them.
            let Some((socket, waiting, backoff, PollingSocket { address, open_connection, context, .. })) =
                hold(next).await
            else {
                return;
            };
            let mut arrival = SessionlessConnection {
                context: &context,
                address,
                handshake: &waiting.1,
                open_connection: open_connection.clone(),
                timeout: &waiting.0,
            };
            let Some(taken) = arrival.wait_for_takeover(socket).await else { return };
            match next_poll(taken, backoff, address, open_connection, Arc::clone(&context)) {
                Some(poll) => next = poll,
                None => return,
            }
        }
    }
}

/// State of a connection that waits for its next poll. Boxed, so that the task needs no space for it while a
/// poll is held.
type Waiting = Box<(RequestTimeout, Handshake)>;

/// Holds a poll until it is answered. Returns the socket and the state needed to wait for the next poll.
async fn hold(poll: Box<NextPoll>) -> Option<(IncomingSocket, Waiting, ParkBackoff, PollingSocket)> {
    let Answered { socket, read, unconfirmed, backoff, continuation } = poll::serve(unbox(poll)).await?;
    let PollingSocket { address, context, .. } = &continuation;
    let waiting = Box::new((
        RequestTimeout::after_poll(
            context,
            socket.descriptor(),
            (!read.is_empty()).then(|| socket.last_received()),
        ),
        // Like a connection without a session, it is evicted if there is no room for others.
        context.handshakes.begin(*address, context.client.timeouts.clock().now()),
    ));
    Some((IncomingSocket::AfterPoll(socket, read, unconfirmed), waiting, backoff, continuation))
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
        fn size<F>(_: fn(Box<NextPoll>, bool) -> F) -> usize {
            size_of::<F>()
        }
        assert!(size(serve) <= 408, "{} bytes", size(serve));
    }
}
