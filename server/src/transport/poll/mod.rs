//! Long-polling: requests that are held until their session has something for them.
//!
//! hyper reads the request and no more: while it is held, all there is of it is a small task, and the answer is written to the bare
//! socket. Then the socket is ready for the next request.

mod answer;
mod at_rest;
mod bayeux;
mod connection;
mod form;
mod json;

use std::future::Future;
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use encke_core::dialect::Beginning;
use encke_core::session::ConnectionInput;
use futures_util::future::{Either, select};

use crate::channel::ChannelName;
use crate::client::{Attachment, Context};
use crate::rest::Pace;
use crate::session::Attached;
use crate::transport::Socket;
use crate::transport::end_of_stream::end_stream;
use crate::transport::following::Following;
use crate::transport::metered::Metered;

pub(crate) use answer::Array;
pub(crate) use at_rest::{Polls, rest};
pub(crate) use bayeux::{ConnectForm, array};
pub(crate) use connection::Connection;
use connection::{Ending, Paused};
pub(crate) use form::Form;
pub(crate) use json::JsonForm;

/// A request that is held.
#[derive(Debug)]
pub(crate) struct Accepted<F> {
    pub(crate) attached: Attached,
    pub(crate) form: F,
    /// It is answered at once.
    pub(crate) is_due: bool,
    /// Channels to follow in addition to the session's.
    pub(crate) channels: Vec<ChannelName>,
    /// Of each, so many of the newest messages come first.
    pub(crate) last: u64,
    /// Headers that the answer has besides its own, as lines.
    pub(crate) headers: Vec<u8>,
    /// Whether another request may follow on the connection.
    pub(crate) keep_alive: bool,
}

/// What has become of a request that was held.
pub(crate) enum Held<S, F> {
    /// It was answered. Another may come on the socket, of which this was read already; it may rest as soon as this says.
    Answered(S, Vec<u8>, Pace),
    /// Nothing more comes on its connection.
    Over,
    /// It [may go to rest](rest).
    Quiet(Connection<S, F>),
}

/// Holds a request until it is answered or may rest.
///
/// A task is as large as all that it ever holds. So it starts with the connection, and its end is boxed.
#[expect(clippy::manual_async_fn, reason = "it would have room for its argument twice")]
pub(crate) fn serve<S: Socket, F: Form>(
    mut connection: Connection<S, F>,
) -> impl Future<Output = Held<S, F>> + Send {
    async move {
        if connection.is_new {
            // As a connection's frames: each counts, and what comes too fast waits. In a box, for it seldom does.
            let pause = connection.attachment.pause().map(Box::new);
            if let Some(pause) = pause {
                pause.await;
            }
            connection.attachment.count_frame();
        }
        match connection.run().await {
            Paused::Rest => Held::Quiet(connection),
            Paused::Ended(Ending::Answered) if connection.keep_alive => {
                let pace = connection.pace;
                let (socket, read_ahead) = connection.into_socket();
                Held::Answered(socket, read_ahead, pace)
            }
            Paused::Ended(Ending::Answered) => {
                Box::pin(end(connection)).await;
                Held::Over
            }
            Paused::Ended(Ending::Lost) => Held::Over,
        }
    }
}

/// Ends a connection on which no other request may follow. If the peer's machine has not acknowledged the answer by then, the client may
/// not have it.
async fn end<S: Socket, F: Form>(connection: Connection<S, F>) {
    let Attachment { session, link, context, .. } = &connection.attachment;
    let (session, link, context) = (session.clone(), Arc::clone(link), Arc::clone(context));
    let (mut socket, _) = connection.into_socket();
    let timeout = pin!(context.closing_is_over());
    let has_failed = {
        let ended = pin!(end_stream(&mut socket));
        let ended = select(ended, timeout).await;
        // Without the farewell of TLS, it has ended.
        matches!(ended, Either::Left((Err(error), _)) if error.kind() != ErrorKind::UnexpectedEof)
    };
    // What TLS has said before the end of our stream, which counts as a byte. A client may have read its answer and not that: its kernel
    // resets the connection then, which tells nothing.
    let farewell = socket.sent(0) as u64;
    let is_lost = if has_failed { farewell == 0 } else { socket.unacknowledged().bytes > farewell + 1 };
    if is_lost {
        context.sessions.handle_connection(&session, link.id, ConnectionInput::AnswerLost);
    }
}

/// A request that was accepted, and what was read of the next.
pub(crate) fn open<S: Socket, F: Form>(
    socket: S,
    read_ahead: Vec<u8>,
    accepted: Accepted<F>,
    context: Arc<Context>,
) -> Connection<S, F> {
    let Accepted { mut attached, form, is_due, channels, last, headers, keep_alive } = accepted;
    let recovered = attached.recovered;
    let revoked = std::mem::take(&mut attached.revoked);
    // A client for which there is news does not wait.
    let is_due = is_due || !revoked.is_empty();
    let following = !recovered || !revoked.is_empty() || !channels.is_empty();
    let asked = channels.into_iter().map(|channel| (channel, Beginning::Newest(last)));
    let following = following.then(|| Following::new(asked, revoked));
    let socket = Metered::new(socket, Arc::clone(&attached.link), Arc::clone(&context));
    let attachment = Attachment::new(attached, context);
    let begun = Connection::begun(socket, attachment, form, headers.into(), keep_alive);
    Connection { is_new: true, read_ahead, following, recovered, is_due, ..begun }
}

/// How long a client waits that holds two polls of one session, before it polls again: each has the other answered, without end.
const SUPERSEDED_PAUSE: Duration = Duration::from_secs(1);
