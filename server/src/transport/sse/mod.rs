//! Server-sent events: read-only connections.
//!
//! hyper reads only the request. The stream is written to the bare socket, without hyper's buffers. A client
//! cannot send on it, so heartbeats are comments, and the acknowledgement from the client's kernel serves as
//! the answer. If that kernel is silent, the session is suspended, but the socket is closed normally: our
//! kernel keeps retransmitting the end of the stream, so that the client reconnects as soon as the network
//! recovers.

mod connection;
mod event;
mod parked;
mod positions;

use std::future::Future;
use std::sync::Arc;

use encke_core::dialect::{Since, StartPosition};

use crate::admission::OpenConnection;
use crate::channel::ChannelName;
use crate::client::{Attachment, Services};
use crate::session::Attached;
use crate::transport::Socket;
use crate::transport::liveness_socket::LivenessSocket;
use crate::transport::pending_subscriptions::PendingSubscriptions;

use connection::{Ending, EventStreamConnection, Paused};
pub(crate) use event::{END_EVENT_ID, write_farewell};
pub(crate) use positions::EventId;
use positions::Positions;

/// An accepted request for an event stream.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// Head of the response.
    pub(crate) head: Vec<u8>,
    pub(crate) attached: Attached,
    /// Channels to subscribe to in addition to the session's.
    pub(crate) channels: Vec<ChannelName>,
    /// Number of newest messages to send first, for each channel in which the client has no position.
    pub(crate) last: u64,
    /// Client's position in each channel, if known.
    pub(crate) positions: Vec<Option<Since<'static>>>,
}

/// Serves an accepted request to its end, on the socket it arrived on.
///
/// A task is as large as its largest state. To keep it small, the connection is set up before the task
/// starts, and the code that ends it is boxed.
pub(crate) fn serve(
    socket: impl Socket,
    accepted: Accepted,
    services: Arc<Services>,
    open_connection: OpenConnection,
) -> impl Future<Output = ()> + Send {
    run(open(socket, accepted, services), open_connection)
}

/// Runs a stream until it ends or is parked.
#[expect(clippy::manual_async_fn, reason = "an `async fn` would reserve room for its arguments twice")]
fn run<S: Socket>(
    mut connection: EventStreamConnection<S>,
    open_connection: OpenConnection,
) -> impl Future<Output = ()> + Send {
    async move {
        match connection.run().await {
            Paused::Park => return parked::park(connection, open_connection),
            Paused::Ended(Ending::Close(code)) => Box::pin(connection.close(code)).await,
            Paused::Ended(Ending::Lost) => {}
        }
        drop(open_connection);
    }
}

fn open<S: Socket>(socket: S, accepted: Accepted, services: Arc<Services>) -> EventStreamConnection<S> {
    let Accepted { head, mut attached, channels, last, positions } = accepted;
    let recovered = attached.recovered;
    let revoked = std::mem::take(&mut attached.revoked);
    let mailbox = Arc::clone(&attached.mailbox);
    let socket = LivenessSocket::new(socket, mailbox, Arc::clone(&services));
    let attachment = Attachment::new(attached, services);
    let known = Positions::new(&channels);
    // Ignore the positions if their number differs from the number of channels: the channels of the URL have
    // changed.
    let positions = if positions.len() == channels.len() { positions } else { vec![None; channels.len()] };
    let begin = |position: Option<_>| position.map_or(StartPosition::Newest(last), StartPosition::After);
    let requested = channels.into_iter().zip(positions.into_iter().map(begin));
    let subscriptions = Some(PendingSubscriptions::new(requested, revoked));
    let out = head.into();
    EventStreamConnection {
        out,
        subscriptions,
        recovered,
        ..EventStreamConnection::bare(socket, attachment, known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::TcpSocket;

    /// With the runtime's overhead, the task takes 360 bytes.
    #[test]
    fn stream_task_is_small() {
        fn size<F>(_: fn(EventStreamConnection<TcpSocket>, OpenConnection) -> F) -> usize {
            size_of::<F>()
        }
        assert!(size(run) <= 256, "{} bytes", size(run));
    }
}
