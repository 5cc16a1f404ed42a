//! Long-polling: requests that are held until their session has something to send.
//!
//! hyper reads only the request. A held request needs no more than a small task. The response is written to
//! the bare socket, which is then ready for the next request.

mod bayeux;
mod connection;
mod json;
mod parked;
mod response;
mod response_writer;

use std::future::Future;
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use encke_core::dialect::StartPosition;
use encke_core::session::ConnectionInput;
use futures_util::future::{Either, select};

use crate::channel::ChannelName;
use crate::client::{Attachment, Services};
use crate::parking::ParkBackoff;
use crate::session::Attached;
use crate::transport::Socket;
use crate::transport::end_of_stream::end_stream;
use crate::transport::liveness_socket::LivenessSocket;
use crate::transport::pending_subscriptions::PendingSubscriptions;

pub(crate) use bayeux::{ConnectResponseWriter, array_response};
pub(crate) use connection::PollConnection;
use connection::{Ending, Paused};
pub(crate) use json::JsonResponseWriter;
pub(crate) use parked::{PollContinuation, park};
pub(crate) use response::JsonArray;
pub(crate) use response_writer::PollResponseWriter;

/// An accepted request, to be held.
#[derive(Debug)]
pub(crate) struct Accepted<F> {
    pub(crate) attached: Attached,
    pub(crate) writer: F,
    /// Whether to respond immediately.
    pub(crate) is_due: bool,
    /// Channels to subscribe to in addition to the session's.
    pub(crate) channels: Vec<ChannelName>,
    /// Number of newest messages of each channel to send first.
    pub(crate) last: u64,
    /// Additional header lines of the response.
    pub(crate) headers: Vec<u8>,
    /// Whether another request may follow on the connection.
    pub(crate) keep_alive: bool,
}

/// Result of holding a request.
pub(crate) enum PollOutcome<S, F> {
    /// The request was answered. Contains the socket, which is ready for the next request, the bytes of that
    /// request that were already read, and the backoff, which carries over.
    Answered(S, Vec<u8>, ParkBackoff),
    /// The connection is closed.
    Closed,
    /// The poll [may be parked](park).
    Parkable(PollConnection<S, F>),
}

/// Holds a request until it is answered or may be parked.
///
/// A task is as large as everything that it ever holds. Therefore this task starts with the complete
/// connection, and the code that ends the connection is boxed.
#[expect(clippy::manual_async_fn, reason = "an `async fn` would reserve room for its argument twice")]
pub(crate) fn serve<S: Socket, F: PollResponseWriter>(
    mut connection: PollConnection<S, F>,
) -> impl Future<Output = PollOutcome<S, F>> + Send {
    async move {
        if connection.is_new {
            // Count the request against the rate limit, as for a frame, and delay it if it exceeds the limit.
            // The pause is boxed, because it is rarely needed.
            let pause = connection.attachment.rate_limit_delay().map(Box::new);
            if let Some(pause) = pause {
                pause.await;
            }
            connection.attachment.count_frame();
        }
        match connection.run().await {
            Paused::Park => PollOutcome::Parkable(connection),
            Paused::Ended(Ending::Answered) if connection.keep_alive => {
                let backoff = connection.backoff;
                let (socket, read_ahead) = connection.into_socket();
                PollOutcome::Answered(socket, read_ahead, backoff)
            }
            Paused::Ended(Ending::Answered) => {
                Box::pin(end(connection)).await;
                PollOutcome::Closed
            }
            Paused::Ended(Ending::Lost) => PollOutcome::Closed,
        }
    }
}

/// Closes a connection that accepts no more requests. If the peer's kernel has not acknowledged the response
/// by the time the connection ends, reports to the session that the client may not have received it.
async fn end<S: Socket, F: PollResponseWriter>(connection: PollConnection<S, F>) {
    let Attachment { session, mailbox, services, .. } = &connection.attachment;
    let (session, mailbox, services) = (session.clone(), Arc::clone(mailbox), Arc::clone(services));
    let (mut socket, _) = connection.into_socket();
    let timeout = pin!(services.closing_elapsed());
    let has_failed = {
        let ended = pin!(end_stream(&mut socket));
        let ended = select(ended, timeout).await;
        // A stream that ends without `close_notify` has ended normally, too.
        matches!(ended, Either::Left((Err(error), _)) if error.kind() != ErrorKind::UnexpectedEof)
    };
    // Number of bytes in our `close_notify`, which TLS sends before the end of the stream. The end itself
    // counts as one byte. If a client has read the response but not these bytes, its kernel resets the
    // connection, so a reset does not show that the response was lost.
    let close_notify_bytes = socket.sent(0) as u64;
    let is_lost = if has_failed {
        close_notify_bytes == 0
    } else {
        socket.unacknowledged().bytes > close_notify_bytes + 1
    };
    if is_lost {
        services.sessions.handle_connection(&session, mailbox.id, ConnectionInput::AnswerLost);
    }
}

/// Creates the connection of an accepted request. `read_ahead` contains the bytes of the next request that
/// were already read.
pub(crate) fn open<S: Socket, F: PollResponseWriter>(
    socket: S,
    read_ahead: Vec<u8>,
    accepted: Accepted<F>,
    services: Arc<Services>,
) -> PollConnection<S, F> {
    let Accepted { mut attached, writer, is_due, channels, last, headers, keep_alive } = accepted;
    let recovered = attached.recovered;
    let revoked = std::mem::take(&mut attached.revoked);
    // Report revocations immediately.
    let is_due = is_due || !revoked.is_empty();
    let must_subscribe = !recovered || !revoked.is_empty() || !channels.is_empty();
    let requested = channels.into_iter().map(|channel| (channel, StartPosition::Newest(last)));
    let subscriptions = must_subscribe.then(|| PendingSubscriptions::new(requested, revoked));
    let socket = LivenessSocket::new(socket, Arc::clone(&attached.mailbox), Arc::clone(&services));
    let attachment = Attachment::new(attached, services);
    let bare = PollConnection::bare(socket, attachment, writer, headers.into(), keep_alive);
    PollConnection { is_new: true, read_ahead, subscriptions, recovered, is_due, ..bare }
}

/// How long a client that has two polls of one session in progress has to wait before its next poll. Without
/// this pause, the polls would supersede each other endlessly.
const SUPERSEDED_PAUSE: Duration = Duration::from_secs(1);
