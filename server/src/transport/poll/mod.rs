//! Long-polling: requests that are held until their session has something for them.
//!
//! hyper reads the request and no more: while it is held, all there is of it is a small task, and the answer is written to the bare
//! socket. Then the socket is ready for the next request.

mod answer;
mod bayeux;
mod connection;
mod form;
mod json;

use std::future::Future;
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use encke_core::session::ConnectionInput;
use futures_util::future::{Either, select};

use crate::channel::ChannelName;
use crate::client::{Attachment, Context};
use crate::session::{Attached, Backlog};
use crate::transport::Socket;
use crate::transport::end_of_stream::end_stream;
use crate::transport::following::Following;
use crate::transport::metered::Metered;
use crate::transport::unwritten::Unwritten;
use crate::transport::write_hold::WriteHold;

pub(crate) use answer::Array;
pub(crate) use bayeux::{ConnectForm, array};
use connection::{Connection, Ending};
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
    /// Headers that the answer has besides its own, as lines.
    pub(crate) headers: Vec<u8>,
    /// Whether another request may follow on the connection.
    pub(crate) keep_alive: bool,
}

/// Serves an accepted request to its end. Returns the socket, if another request may come on it, and what was read of that already.
pub(crate) fn serve<S: Socket, F: Form>(
    socket: S,
    read_already: Vec<u8>,
    accepted: Accepted<F>,
    context: Arc<Context>,
) -> impl Future<Output = Option<(S, Vec<u8>)>> + Send {
    let mut connection = open(socket, read_already, accepted, context);
    async move {
        // As a connection's frames: each counts, and what comes too fast waits. In a box, for it seldom does.
        let pause = connection.attachment.pause().map(Box::new);
        if let Some(pause) = pause {
            pause.await;
        }
        connection.attachment.count_frame();
        match connection.run().await {
            Ending::Answered if connection.keep_alive => Some(connection.into_socket()),
            Ending::Answered => {
                Box::pin(end(connection)).await;
                None
            }
            Ending::Lost => None,
        }
    }
}

/// Ends a connection on which no other request may follow. If the peer's machine has not acknowledged the answer by then, the client may
/// not have it.
async fn end<S: Socket, F: Form>(connection: Connection<S, F>) {
    let Attachment { session, link, context, .. } = &connection.attachment;
    let (session, link, context) = (Arc::clone(session), Arc::clone(link), Arc::clone(context));
    let (mut socket, _) = connection.into_socket();
    let timeout = pin!(context.timeouts.sleep(context.settings.close_timeout));
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
        context.sessions.handle_connection(&session, &link, ConnectionInput::AnswerLost);
    }
}

fn open<S: Socket, F: Form>(
    socket: S,
    read_already: Vec<u8>,
    accepted: Accepted<F>,
    context: Arc<Context>,
) -> Connection<S, F> {
    let Accepted { mut attached, form, is_due, channels, headers, keep_alive } = accepted;
    let recovered = attached.recovered;
    let revoked = std::mem::take(&mut attached.revoked);
    // A client for which there is news does not wait.
    let is_due = is_due || !revoked.is_empty();
    let following = !recovered || !revoked.is_empty() || !channels.is_empty();
    let asked = channels.into_iter().map(|channel| (channel, None));
    let socket = Metered::new(socket, Arc::clone(&attached.link), Arc::clone(&context));
    Connection {
        socket,
        attachment: Attachment::new(attached, context),
        read_ahead: read_already,
        account: None,
        following: following.then(|| Following::new(asked, revoked)),
        recovered,
        is_due,
        form,
        backlog: Backlog { more: true, until_acknowledged: false },
        headers,
        keep_alive,
        out: Unwritten::default(),
        hold: WriteHold::default(),
    }
}

/// How long a client waits that holds two polls of one session, before it polls again: each has the other answered, without end.
const SUPERSEDED_PAUSE: Duration = Duration::from_secs(1);
