//! The polls of one connection, one after the other.

use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use super::Context;
use super::arrival::{Answered, Arrival, Arriving, Served, Taken};
use super::end::{End, RequestTimeout};
use crate::admission::OpenConnection;
use crate::client;
use crate::transport::poll::{ConnectForm, Form, JsonForm};
use crate::transport::{TcpSocket, poll, sse};

/// A socket that a request has taken goes to a task that is as small as what is left to do.
pub(super) fn hand_on(
    served: Served,
    address: IpAddr,
    open_connection: OpenConnection,
    context: &Arc<Context>,
) {
    if let Some(first) = Next::of(served, context) {
        tokio::spawn(serve(first, address, open_connection, Arc::clone(context)));
    }
}

/// What is to be held next. Boxed, for the task that holds it has no room for it.
enum Next {
    Poll(Box<Request<JsonForm>>),
    Connect(Box<Request<Box<ConnectForm>>>),
}

struct Request<F> {
    socket: TcpSocket,
    read_already: Vec<u8>,
    accepted: poll::Accepted<F>,
    of_client: OpenConnection,
}

impl Next {
    /// A stream of events gets a task of its own instead.
    fn of(served: Served, context: &Context) -> Option<Self> {
        let Served { socket, read_already, taken, of_client } = served;
        match taken {
            Taken::Poll(accepted) => {
                Some(Self::Poll(Box::new(Request { socket, read_already, accepted, of_client })))
            }
            Taken::Connect(accepted) => {
                Some(Self::Connect(Box::new(Request { socket, read_already, accepted, of_client })))
            }
            Taken::Events(accepted) => {
                tokio::spawn(sse::serve(socket, accepted, Arc::clone(&context.client), of_client));
                None
            }
        }
    }
}

impl<F: Form> Request<F> {
    #[expect(clippy::boxed_local, reason = "the box ends here, and not with the poll")]
    fn hold(
        self: Box<Self>,
        client: Arc<client::Context>,
    ) -> (impl Future<Output = Option<(TcpSocket, Vec<u8>)>> + Send, OpenConnection) {
        let Self { socket, read_already, accepted, of_client } = *self;
        (poll::serve(socket, read_already, accepted, client), of_client)
    }
}

/// Holds a poll, answers it, and waits for the next.
///
/// One task for all of them: where polls end at different times, a task for each would leave the memory between them in pieces. It
/// has room for a poll, or for what waits for the next, and for nothing twice.
#[expect(clippy::manual_async_fn, reason = "it would have room for its arguments twice")]
fn serve(
    mut next: Next,
    address: IpAddr,
    open_connection: OpenConnection,
    context: Arc<Context>,
) -> impl Future<Output = ()> + Send {
    async move {
        loop {
            let client = Arc::clone(&context.client);
            let Some(socket) = (match next {
                Next::Poll(request) => {
                    let (held, _of_client) = request.hold(client);
                    held.await.map(|(socket, read_already)| Arriving::Again(socket, read_already, None))
                }
                Next::Connect(request) => {
                    let has_acknowledged = request.accepted.form.acknowledged.is_some();
                    let answered = (!has_acknowledged).then(|| Answered::of(&request.accepted.attached));
                    let (held, _of_client) = request.hold(client);
                    held.await.map(|(socket, read_already)| Arriving::Again(socket, read_already, answered))
                }
            }) else {
                return;
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
        fn size<F>(_: fn(Next, IpAddr, OpenConnection, Arc<Context>) -> F) -> usize {
            size_of::<F>()
        }
        assert!(size(serve) <= 408, "{} bytes", size(serve));
    }
}
