//! Server-sent events: a session that is only read.
//!
//! hyper reads the request and no more: the stream is written to the bare socket, without hyper's buffers. A client cannot
//! answer on it. So heartbeats are comments, and the acknowledgement of the client's machine is the answer. A client whose
//! machine is silent is suspended, but its socket is closed in the ordinary way: the kernel goes on telling the client that
//! the stream has ended, so that it comes back as soon as the network does.

mod at_rest;
mod connection;
mod event;
mod positions;

use std::future::Future;
use std::sync::Arc;

use encke_core::dialect::{Beginning, Since};

use crate::admission::OpenConnection;
use crate::channel::ChannelName;
use crate::client::{Attachment, Context};
use crate::session::Attached;
use crate::transport::Socket;
use crate::transport::following::Following;
use crate::transport::metered::Metered;

use connection::{Connection, Ending, Paused};
pub(crate) use event::{END, farewell};
pub(crate) use positions::EventId;
use positions::Positions;

/// A request that gets a stream.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// The head of the answer.
    pub(crate) head: Vec<u8>,
    pub(crate) attached: Attached,
    /// Channels to follow in addition to the session's.
    pub(crate) channels: Vec<ChannelName>,
    /// Of each, so many of the newest messages come first, if the client has nothing of it.
    pub(crate) last: u64,
    /// What the client has of each, as far as it says so.
    pub(crate) positions: Vec<Option<Since<'static>>>,
}

/// Serves an accepted request to its end, on the socket that it came on.
///
/// A task is as large as all that it ever holds. So it starts with the connection, and its end is boxed.
pub(crate) fn serve(
    socket: impl Socket,
    accepted: Accepted,
    context: Arc<Context>,
    open_connection: OpenConnection,
) -> impl Future<Output = ()> + Send {
    run(open(socket, accepted, context), open_connection)
}

/// Runs a stream until it ends or goes to rest.
#[expect(clippy::manual_async_fn, reason = "it would have room for its arguments twice")]
fn run<S: Socket>(
    mut connection: Connection<S>,
    open_connection: OpenConnection,
) -> impl Future<Output = ()> + Send {
    async move {
        match connection.run().await {
            Paused::Rest => return at_rest::rest(connection, open_connection),
            Paused::Ended(Ending::Close(code)) => Box::pin(connection.say_goodbye(code)).await,
            Paused::Ended(Ending::Lost) => {}
        }
        drop(open_connection);
    }
}

fn open<S: Socket>(socket: S, accepted: Accepted, context: Arc<Context>) -> Connection<S> {
    let Accepted { head, mut attached, channels, last, positions } = accepted;
    let recovered = attached.recovered;
    let revoked = std::mem::take(&mut attached.revoked);
    let link = Arc::clone(&attached.link);
    let socket = Metered::new(socket, link, Arc::clone(&context));
    let attachment = Attachment::new(attached, context);
    let known = Positions::new(&channels);
    // Of a URL that has changed, nothing is known.
    let positions = if positions.len() == channels.len() { positions } else { vec![None; channels.len()] };
    let begin = |position: Option<_>| position.map_or(Beginning::Newest(last), Beginning::After);
    let asked = channels.into_iter().zip(positions.into_iter().map(begin));
    let following = Some(Following::new(asked, revoked));
    let out = head.into();
    Connection { out, following, recovered, ..Connection::begun(socket, attachment, known) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::TcpSocket;

    /// With what the runtime adds, 360 bytes.
    #[test]
    fn the_task_of_a_stream_is_small() {
        fn size<F>(_: fn(Connection<TcpSocket>, OpenConnection) -> F) -> usize {
            size_of::<F>()
        }
        assert!(size(run) <= 256, "{} bytes", size(run));
    }
}
