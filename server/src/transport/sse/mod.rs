//! Server-sent events: a session that is only read.
//!
//! hyper reads the request and no more: the stream goes out on the bare socket, as long as it lasts, without hyper's
//! buffers. A client cannot answer on it. So heartbeats are comments, and a dead peer is found by the kernel, which gives up
//! what is not acknowledged for `pong_timeout` (TCP_USER_TIMEOUT). While a write is held, `write_timeout` governs instead:
//! the kernel would take a peer that has no room for dead.

mod connection;
mod event;
mod request;

use std::future::Future;
use std::sync::Arc;

use crate::server::Shared;
use crate::session::{Left, NotSubscribed, Transport};
use crate::shutdown::OpenConnection;
use crate::transport::Socket;
use crate::transport::attachment::Attachment;
use crate::transport::greeting::{hello, unsubscribed};
use crate::transport::metered::Metered;
use crate::transport::unwritten::Unwritten;
use crate::transport::write_hold::WriteHold;

use connection::{Connection, Ending};
pub(crate) use request::{Accepted, accept};

/// Serves an accepted request to its end, on the socket that it came on.
///
/// A task is as large as all that it ever holds: so it begins with the connection, and the end is boxed.
pub(crate) fn serve(
    socket: impl Socket,
    accepted: Accepted,
    shared: Arc<Shared>,
    open_connection: OpenConnection,
) -> impl Future<Output = ()> + Send {
    let mut connection = open(socket, accepted, shared);
    async move {
        if let Ending::Close(code) = connection.run().await {
            Box::pin(connection.say_goodbye(code)).await;
        }
        drop(open_connection);
    }
}

fn open<S: Socket>(socket: S, accepted: Accepted, shared: Arc<Shared>) -> Connection<S> {
    let Accepted { head, mut attached, channels } = accepted;
    let pong_timeout = shared.sessions.settings().pong_timeout;
    let recovered = attached.recovered;
    let revoked = std::mem::take(&mut attached.revoked);
    let link = Arc::clone(&attached.link);
    let socket = Metered::new(socket, link, Arc::clone(&shared.timeouts));
    socket.give_up_after(Some(pong_timeout));
    let attachment = Attachment::new(attached, Transport::Events, shared);
    let mut connection = Connection {
        socket,
        token: attachment.session.resume_token().expose(),
        attachment,
        out: Unwritten::default(),
        heartbeat: false,
        left: Left { more: true, until_acknowledged: false },
        hold: WriteHold::default(),
    };
    connection.out.bytes = head;
    let hello = hello(&connection.attachment, recovered);
    let sent = connection.attachment.session.sent();
    connection.events().numbered(sent, &hello);
    for channel in revoked {
        connection.events().plain(&unsubscribed(&channel, "forbidden"));
    }
    for channel in channels {
        let Attachment { session, link, shared, .. } = &connection.attachment;
        if let Err(error) = shared.sessions.subscribe(session, link, &channel, None) {
            tracing::debug!(%channel, %error, "not subscribed");
            let reason = if error == NotSubscribed::Forbidden { "forbidden" } else { "limit" };
            connection.events().plain(&unsubscribed(&channel, reason));
        }
    }
    connection
}
