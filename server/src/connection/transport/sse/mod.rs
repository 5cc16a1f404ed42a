//! Server-sent events: read-only connections.
//!
//! hyper reads only the request. The stream is written to the bare socket, without hyper's buffers. A client
//! cannot send on it, so heartbeats are comments, and the acknowledgement from the client's kernel serves as
//! the answer. If that kernel is silent, the session is suspended, but the socket is closed normally: our
//! kernel keeps retransmitting the end of the stream, so that the client reconnects as soon as the network
//! recovers.

mod event;
mod positions;
mod protocol;

use std::future::Future;
use std::sync::Arc;

use encke_broker::channel::ChannelName;
use futures_util::FutureExt;

use crate::admission::OpenConnection;
use crate::client::{Attachment, Services};
use crate::connection::{Connection, PendingSubscriptions, Socket, drive};
use crate::session::Attached;

pub(crate) use event::{END_EVENT_ID, write_farewell};
use positions::Positions;
pub(crate) use positions::{ClientPositions, EventId};
use protocol::EventStream;

/// An accepted request for an event stream.
pub(crate) struct Accepted {
    /// Head of the response.
    pub(crate) head: Vec<u8>,
    pub(crate) attached: Attached,
    /// Channels to subscribe to in addition to the session's.
    pub(crate) channels: Vec<ChannelName>,
    /// Number of newest messages to send first, for each channel in which the client has no position.
    pub(crate) last: u64,
    pub(crate) positions: ClientPositions,
}

/// Serves an accepted request to its end, on the socket it arrived on.
///
/// A task is as large as its largest state. To keep it small, the connection is set up before the task
/// starts.
pub(crate) fn serve(
    socket: impl Socket,
    accepted: Accepted,
    services: Arc<Services>,
    open_connection: OpenConnection,
) -> impl Future<Output = ()> + Send {
    let Accepted { head, mut attached, channels, last, positions } = accepted;
    let recovered = attached.recovered;
    let revoked = std::mem::take(&mut attached.revoked);
    let stream = EventStream {
        positions: Positions::new(&channels, &positions),
        open_connection: open_connection.compact(),
    };
    let requested = channels.into_iter().map(|channel| {
        let begin = positions.begin(&channel, last);
        (channel, begin)
    });
    let subscriptions = PendingSubscriptions::new(requested, revoked);
    let mut connection = Connection::new(socket, Vec::new(), Attachment::new(attached, services), stream);
    connection.out = head.into();
    (connection.subscriptions, connection.recovered) = (Some(subscriptions), recovered);
    drive(connection).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::TcpSocket;

    /// With the runtime's overhead, the task takes 368 bytes, for which the allocator reserves 384.
    #[test]
    fn stream_task_is_small() {
        fn size<F>(_: fn(Connection<TcpSocket, EventStream>) -> F) -> usize {
            size_of::<F>()
        }
        assert!(size(drive) <= 264, "{} bytes", size(drive));
    }
}
