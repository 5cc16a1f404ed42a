//! Server-sent events: a session that is only read.
//!
//! hyper reads the request and no more: the stream is written to the bare socket, without hyper's buffers. A client cannot
//! answer on it. So heartbeats are comments, and the kernel finds a dead peer: it gives up a connection on which
//! nothing is acknowledged for `pong_timeout` (TCP_USER_TIMEOUT). While a write is held, `write_timeout` governs
//! instead, because the kernel would take a peer without room for dead.

mod connection;
mod event;

use std::future::Future;
use std::sync::Arc;

use crate::admission::OpenConnection;
use crate::channel::ChannelName;
use crate::client::{Attachment, Context, hello, unsubscribed};
use crate::session::{Attached, Backlog, NotSubscribed, Transport};
use crate::transport::Socket;
use crate::transport::metered::Metered;
use crate::transport::unwritten::Unwritten;
use crate::transport::write_hold::WriteHold;

use connection::{Connection, Ending};
pub(crate) use event::{Events, parse_id};

/// A request that gets a stream.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// The head of the answer.
    pub(crate) head: Vec<u8>,
    pub(crate) attached: Attached,
    /// What to follow beside what the session follows already.
    pub(crate) channels: Vec<ChannelName>,
}

/// Serves an accepted request to its end, on the socket that it came on.
///
/// A task is as large as all that it ever holds. So its beginning and its end are boxed, and the task itself holds the
/// connection and no more.
pub(crate) fn serve<S: Socket>(
    socket: S,
    accepted: Accepted,
    context: Arc<Context>,
    open_connection: OpenConnection,
) -> impl Future<Output = ()> + Send {
    let Accepted { head, attached, channels } = accepted;
    let connection = open(socket, head, attached, context);
    let opening = Box::pin(follow(connection, channels));
    async move {
        let mut connection = opening.await;
        if let Ending::Close(code) = connection.run().await {
            Box::pin(connection.say_goodbye(code)).await;
        }
        drop(open_connection);
    }
}

fn open<S: Socket>(socket: S, head: Vec<u8>, mut attached: Attached, context: Arc<Context>) -> Connection<S> {
    let pong_timeout = context.sessions.settings().pong_timeout;
    let recovered = attached.recovered;
    let revoked = std::mem::take(&mut attached.revoked);
    let link = Arc::clone(&attached.link);
    let socket = Metered::new(socket, link, Arc::clone(&context.timeouts));
    socket.give_up_after(Some(pong_timeout));
    let attachment = Attachment::new(attached, Transport::Events, context);
    let mut connection = Connection {
        socket,
        token: attachment.session.resume_token().expose(),
        attachment,
        out: Unwritten::default(),
        heartbeat: false,
        backlog: Backlog { more: true, until_acknowledged: false },
        hold: WriteHold::default(),
    };
    connection.out.bytes = head;
    let hello = hello(&connection.attachment, recovered);
    let sent = connection.attachment.session.sent();
    connection.events().numbered(sent, &hello);
    for channel in revoked {
        connection.events().plain(&unsubscribed(&channel, "forbidden"));
    }
    connection
}

async fn follow<S: Socket>(mut connection: Connection<S>, channels: Vec<ChannelName>) -> Connection<S> {
    for channel in channels {
        let Attachment { session, link, context, .. } = &connection.attachment;
        let subscribed = context.sessions.subscribe(session, link, &channel, None);
        if let Err(error) = subscribed.await {
            tracing::debug!(%channel, %error, "not subscribed");
            let reason = if error == NotSubscribed::Forbidden { "forbidden" } else { "limit" };
            connection.events().plain(&unsubscribed(&channel, reason));
        }
    }
    connection
}
