//! The polls of one connection, one after the other.

use std::future::{Future, ready};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use super::Context;
use super::arrival::{Answered, Arrival, Arriving, Served, Taken};
use super::end::{End, RequestTimeout};
use crate::admission::OpenConnection;
use crate::rest::Pace;
use crate::transport::poll::{ConnectForm, Form, Held, JsonForm, Polls, rest};
use crate::transport::{TcpSocket, poll, sse, websocket};

/// A socket that a request has taken goes to a task that is as small as what is left to do.
pub(super) fn hand_on(
    served: Served,
    address: IpAddr,
    open_connection: OpenConnection,
    context: &Arc<Context>,
) {
    if let Some(first) = Next::of(served, context) {
        tokio::spawn(serve(first, Pace::default(), address, open_connection, Arc::clone(context)));
    }
}

/// What is to be held next. Boxed, for the task that holds it has no room for it.
enum Next {
    Poll(Box<Request<JsonForm>>),
    Connect(Box<Request<Box<ConnectForm>>>),
}

struct Request<F> {
    poll: poll::Connection<TcpSocket, F>,
    of_client: OpenConnection,
}

impl Next {
    /// A WebSocket or a stream of events gets a task of its own instead.
    fn of(served: Served, context: &Context) -> Option<Self> {
        let Served { socket, read_already, taken, of_client } = served;
        let client = Arc::clone(&context.client);
        match taken {
            Taken::Poll(accepted) => {
                let poll = poll::open(socket, read_already, accepted, client);
                Some(Self::Poll(Box::new(Request { poll, of_client })))
            }
            Taken::Connect(accepted) => {
                let poll = poll::open(socket, read_already, accepted, client);
                Some(Self::Connect(Box::new(Request { poll, of_client })))
            }
            Taken::WebSocket(upgrade) => {
                tokio::spawn(websocket::serve(upgrade, ready(Some((socket, read_already))), client));
                None
            }
            Taken::Events(accepted) => {
                tokio::spawn(sse::serve(socket, accepted, client, of_client));
                None
            }
        }
    }
}

impl<F: Form> Request<F> {
    #[expect(clippy::boxed_local, reason = "the box ends here, and not with the poll")]
    fn hold(
        self: Box<Self>,
        pace: Pace,
    ) -> (impl Future<Output = Held<TcpSocket, F>> + Send, OpenConnection) {
        let Self { mut poll, of_client } = *self;
        poll.set_pace(pace);
        (poll::serve(poll), of_client)
    }
}

/// What the task of a connection knows besides the poll that it holds, while that is at rest.
struct Resting {
    address: IpAddr,
    open_connection: OpenConnection,
    of_client: OpenConnection,
    context: Arc<Context>,
}

impl Resting {
    fn go_on<F: Form>(
        self,
        poll: poll::Connection<TcpSocket, F>,
        next: fn(Box<Request<F>>) -> Next,
    ) -> impl Future<Output = ()> + Send + 'static {
        let Self { address, open_connection, of_client, context } = self;
        let pace = poll.pace();
        serve(next(Box::new(Request { poll, of_client })), pace, address, open_connection, context)
    }
}

impl Polls<TcpSocket, JsonForm> for Resting {
    fn go_on(
        self,
        poll: poll::Connection<TcpSocket, JsonForm>,
    ) -> impl Future<Output: Send + 'static> + Send + 'static {
        self.go_on(poll, Next::Poll)
    }
}

impl Polls<TcpSocket, Box<ConnectForm>> for Resting {
    fn go_on(
        self,
        poll: poll::Connection<TcpSocket, Box<ConnectForm>>,
    ) -> impl Future<Output: Send + 'static> + Send + 'static {
        self.go_on(poll, Next::Connect)
    }
}

/// Holds a poll, answers it, and waits for the next, until a poll goes to rest. The pace at which they do is that of all polls of the
/// connection: those of a client that is answered again and again keep its task.
///
/// One task for all of them: where polls end at different times, a task for each would leave the memory between them in pieces. It
/// has room for a poll, or for what waits for the next, and for nothing twice.
#[expect(clippy::manual_async_fn, reason = "it would have room for its arguments twice")]
fn serve(
    mut next: Next,
    mut pace: Pace,
    address: IpAddr,
    open_connection: OpenConnection,
    context: Arc<Context>,
) -> impl Future<Output = ()> + Send + 'static {
    async move {
        loop {
            let socket = match next {
                Next::Poll(request) => {
                    let (held, of_client) = request.hold(pace);
                    match held.await {
                        Held::Answered(socket, read_already, of_poll) => {
                            pace = of_poll;
                            Arriving::Again(socket, read_already, None)
                        }
                        Held::Over => return,
                        Held::Quiet(poll) => {
                            return rest(poll, Resting { address, open_connection, of_client, context });
                        }
                    }
                }
                Next::Connect(request) => {
                    let has_acknowledged = request.poll.form().acknowledged.is_some();
                    let answered = (!has_acknowledged).then(|| Answered::of(request.poll.attachment()));
                    let (held, of_client) = request.hold(pace);
                    match held.await {
                        Held::Answered(socket, read_already, of_poll) => {
                            pace = of_poll;
                            Arriving::Again(socket, read_already, answered)
                        }
                        Held::Over => return,
                        Held::Quiet(poll) => {
                            return rest(poll, Resting { address, open_connection, of_client, context });
                        }
                    }
                }
            };
            let timeout = RequestTimeout::new(&context, true);
            let stopped = pin!(context.stop.cancelled());
            let mut end = End::new(&timeout, None, stopped, &context);
            let open_connection = open_connection.clone();
            let mut arrival =
                Arrival { context: &context, address, handshake: None, open_connection, timeout: &timeout };
            let Some(served) = arrival.request(socket, &mut end).await else {
                return;
            };
            match Next::of(served, &context) {
                Some(poll) => next = poll,
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With what the runtime adds, 512 bytes.
    #[test]
    fn the_task_of_a_client_that_polls_is_small() {
        fn size<F>(_: fn(Next, Pace, IpAddr, OpenConnection, Arc<Context>) -> F) -> usize {
            size_of::<F>()
        }
        assert!(size(serve) <= 408, "{} bytes", size(serve));
    }
}
