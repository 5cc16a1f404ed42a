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
use crate::parking::ParkBackoff;
use crate::transport::poll::{
    ConnectResponseWriter, JsonResponseWriter, PollContinuation, PollOutcome, PollResponseWriter, park,
};
use crate::transport::{TcpSocket, poll, sse, websocket};

/// Spawns a task that serves a socket after a takeover. The task is only as large as the remaining work
/// requires.
pub(super) fn hand_over(
    served: TakenSocket,
    address: IpAddr,
    open_connection: OpenConnection,
    context: &Arc<Context>,
) {
    if let Some(first) = HeldPoll::from_socket(served, context) {
        tokio::spawn(serve(first, ParkBackoff::default(), address, open_connection, Arc::clone(context)));
    }
}

/// Next poll to be held. It is boxed so that the task, which is as large as all its variables, need not have
/// space for it.
enum HeldPoll {
    Poll(Box<PollRequest<JsonResponseWriter>>),
    Connect(Box<PollRequest<Box<ConnectResponseWriter>>>),
}

struct PollRequest<F> {
    poll: poll::PollConnection<TcpSocket, F>,
    client_entry: OpenConnection,
}

impl HeldPoll {
    /// Returns the next poll. For a WebSocket or an event stream, spawns a separate task and returns `None`.
    fn from_socket(served: TakenSocket, context: &Context) -> Option<Self> {
        let TakenSocket { socket, read_already, takeover, client_entry } = served;
        let client = Arc::clone(&context.client);
        match takeover {
            SocketTakeover::Poll(accepted) => {
                let poll = poll::open(socket, read_already, accepted, client);
                Some(Self::Poll(Box::new(PollRequest { poll, client_entry })))
            }
            SocketTakeover::Connect(accepted) => {
                let poll = poll::open(socket, read_already, accepted, client);
                Some(Self::Connect(Box::new(PollRequest { poll, client_entry })))
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

impl<F: PollResponseWriter> PollRequest<F> {
    #[expect(clippy::boxed_local, reason = "the box is freed here, not after the poll")]
    fn hold(
        self: Box<Self>,
        backoff: ParkBackoff,
    ) -> (impl Future<Output = PollOutcome<TcpSocket, F>> + Send, OpenConnection) {
        let Self { mut poll, client_entry } = *self;
        poll.set_backoff(backoff);
        (poll::serve(poll), client_entry)
    }
}

/// State of a connection's task while its poll is parked, apart from the poll itself.
struct ParkedPollTask {
    address: IpAddr,
    open_connection: OpenConnection,
    client_entry: OpenConnection,
    context: Arc<Context>,
}

impl ParkedPollTask {
    fn continue_serving<F: PollResponseWriter>(
        self,
        poll: poll::PollConnection<TcpSocket, F>,
        next: fn(Box<PollRequest<F>>) -> HeldPoll,
    ) -> impl Future<Output = ()> + Send + 'static {
        let Self { address, open_connection, client_entry, context } = self;
        let backoff = poll.backoff();
        serve(next(Box::new(PollRequest { poll, client_entry })), backoff, address, open_connection, context)
    }
}

impl PollContinuation<TcpSocket, JsonResponseWriter> for ParkedPollTask {
    fn continue_after_parking(
        self,
        poll: poll::PollConnection<TcpSocket, JsonResponseWriter>,
    ) -> impl Future<Output: Send + 'static> + Send + 'static {
        self.continue_serving(poll, HeldPoll::Poll)
    }
}

impl PollContinuation<TcpSocket, Box<ConnectResponseWriter>> for ParkedPollTask {
    fn continue_after_parking(
        self,
        poll: poll::PollConnection<TcpSocket, Box<ConnectResponseWriter>>,
    ) -> impl Future<Output: Send + 'static> + Send + 'static {
        self.continue_serving(poll, HeldPoll::Connect)
    }
}

/// Holds a poll, answers it, and waits for the next one, until a poll is parked. All polls of the connection
/// share the parking backoff, so a client that is answered frequently keeps its task.
///
/// All polls of the connection also share this task. With one task per poll, polls that end at different
/// times would fragment the memory. The task has space for either one poll or the wait for the next one, and
/// for nothing twice.
#[expect(clippy::manual_async_fn, reason = "an `async fn` would reserve room for its arguments twice")]
fn serve(
    mut next: HeldPoll,
    mut backoff: ParkBackoff,
    address: IpAddr,
    open_connection: OpenConnection,
    context: Arc<Context>,
) -> impl Future<Output = ()> + Send + 'static {
    async move {
        loop {
            let socket = match next {
                HeldPoll::Poll(request) => {
                    let (held, client_entry) = request.hold(backoff);
                    match held.await {
                        PollOutcome::Answered(socket, read_already, poll_backoff) => {
                            backoff = poll_backoff;
                            IncomingSocket::AfterPoll(socket, read_already, None)
                        }
                        PollOutcome::Closed => return,
                        PollOutcome::Parkable(poll) => {
                            return park(
                                poll,
                                ParkedPollTask { address, open_connection, client_entry, context },
                            );
                        }
                    }
                }
                HeldPoll::Connect(request) => {
                    let has_acknowledged = request.poll.writer().acknowledged.is_some();
                    let answered =
                        (!has_acknowledged).then(|| UnconfirmedAnswer::of(request.poll.attachment()));
                    let (held, client_entry) = request.hold(backoff);
                    match held.await {
                        PollOutcome::Answered(socket, read_already, poll_backoff) => {
                            backoff = poll_backoff;
                            IncomingSocket::AfterPoll(socket, read_already, answered)
                        }
                        PollOutcome::Closed => return,
                        PollOutcome::Parkable(poll) => {
                            return park(
                                poll,
                                ParkedPollTask { address, open_connection, client_entry, context },
                            );
                        }
                    }
                }
            };
            let timeout = RequestTimeout::new(&context, true);
            let stopped = pin!(context.stop.cancelled());
            let mut end = ConnectionDeadline::new(&timeout, None, stopped, &context);
            let open_connection = open_connection.clone();
            let mut arrival = SessionlessConnection {
                context: &context,
                address,
                handshake: None,
                open_connection,
                timeout: &timeout,
            };
            let Some(served) = arrival.wait_for_takeover(socket, &mut end).await else {
                return;
            };
            match HeldPoll::from_socket(served, &context) {
                Some(poll) => next = poll,
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the runtime's overhead, the task takes 512 bytes.
    #[test]
    fn polling_task_is_small() {
        fn size<F>(_: fn(HeldPoll, ParkBackoff, IpAddr, OpenConnection, Arc<Context>) -> F) -> usize {
            size_of::<F>()
        }
        assert!(size(serve) <= 408, "{} bytes", size(serve));
    }
}
