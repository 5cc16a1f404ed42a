//! Long-polling: requests that are held until their session has something to send.
//!
//! hyper reads only the request. A held request needs no more than a small task. The response is written to
//! the bare socket, which is then ready for the next request.

mod bayeux;
mod response;
mod writer;

use std::future::Future;
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;

use encke_base::parking::ParkBackoff;
use encke_core::close::CloseCode;
use encke_core::dialect::DialectName;
use encke_core::frame::Fragments;
use encke_core::session::{ConnectionId, ConnectionInput};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, OptionFuture, Ready, ready, select};

use self::response::PollResponse;
use crate::client::{Attachment, Services};
use crate::connection::{
    Connection, Ending, Handled, Link, Parkable, PendingSubscriptions, Protocol, RefusedChannel,
    RequestedChannel, Socket, drive, end_stream,
};
use crate::session::{
    Attached, DeliveryBatch, DeliveryWriter, SessionCell, SessionHandle, SessionOutbox, Transport, take_batch,
};

pub(crate) use bayeux::{ConnectResponseWriter, array_response};
pub(crate) use response::JsonArray;
pub(crate) use writer::ResponseWriter;

/// Approximate maximum size of a response. The rest follows in the next response, which the client requests
/// immediately.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// A request that is held until there is something to respond with.
pub(crate) struct HeldRequest<C> {
    pub(crate) writer: ResponseWriter,
    /// Header lines of the response.
    headers: Box<[u8]>,
    keep_alive: bool,
    /// State that the socket's task needs after the response.
    pub(crate) continuation: C,
}

impl<C> HeldRequest<C> {
    /// Queues the response, after which nothing else is sent.
    fn respond(&self, content: &PollResponse, link: &mut Link<'_, ()>) {
        let services = &link.attachment.services;
        let keep_alive = self.keep_alive.then_some(services.settings.keep_alive_timeout);
        let now = services.timeouts.clock().unix_now();
        link.out.bytes = content.response(&self.headers, keep_alive, now);
    }
}

/// A poll that is held.
pub(crate) type HeldPoll<S, C> = Connection<S, HeldRequest<C>>;

/// An accepted request, to be held.
pub(crate) struct Accepted {
    pub(crate) attached: Attached,
    pub(crate) writer: ResponseWriter,
    /// Whether to respond immediately.
    pub(crate) is_due: bool,
    /// Channels to subscribe to in addition to the session's.
    pub(crate) channels: Vec<RequestedChannel>,
    /// Additional header lines of the response.
    pub(crate) headers: Vec<u8>,
    /// Whether another request may follow on the connection.
    pub(crate) keep_alive: bool,
}

/// A poll that was answered, on a socket that is ready for the next request.
pub(crate) struct Answered<S, C> {
    pub(crate) socket: S,
    /// Bytes of the next request that were already read.
    pub(crate) read: Vec<u8>,
    /// Set if only the client's next request can show that the client has received the response.
    pub(crate) unconfirmed: Option<UnconfirmedAnswer>,
    /// Parking backoff, which the next poll on the socket inherits.
    pub(crate) backoff: ParkBackoff,
    pub(crate) continuation: C,
}

/// An answer that the client of a session may not have received.
pub(crate) struct UnconfirmedAnswer {
    session: SessionHandle,
    connection: ConnectionId,
}

impl UnconfirmedAnswer {
    fn of(Attachment { session, mailbox, .. }: &Attachment) -> Self {
        Self { session: session.clone(), connection: mailbox.id }
    }

    /// Reports to the session that the client may not have received the answer.
    pub(crate) fn report_lost(&self, services: &Services) {
        // The answer may have ended a pause.
        self.session.note_pause();
        services.sessions.lifecycle.handle_connection(
            &self.session,
            self.connection,
            ConnectionInput::AnswerLost,
        );
    }
}

/// Holds a request until it is answered or parked. Returns `None` if the connection is closed or parked.
///
/// A task reserves space for every value held across an await, and for arguments even after they are moved
/// elsewhere. Therefore this future holds only the connection, and the code that ends it is boxed.
pub(crate) fn serve<S: Socket, C: Send + 'static>(
    poll: HeldPoll<S, C>,
) -> impl Future<Output = Option<Answered<S, C>>> + Send
where
    HeldRequest<C>: Parkable<S>,
{
    drive(poll).then(|answered| OptionFuture::from(answered.map(finish)).map(Option::flatten))
}

type Finishing<S, C> = Either<BoxFuture<'static, Option<Answered<S, C>>>, Ready<Option<Answered<S, C>>>>;

fn finish<S: Socket, C: Send + 'static>(poll: HeldPoll<S, C>) -> Finishing<S, C> {
    if !poll.protocol.keep_alive {
        return Either::Left(Box::pin(end(poll).map(|()| None)));
    }
    let backoff = poll.backoff;
    let lacks_acknowledgement = poll.protocol.writer.lacks_acknowledgement();
    let unconfirmed = lacks_acknowledgement.then(|| UnconfirmedAnswer::of(&poll.attachment));
    let (socket, read, _, HeldRequest { continuation, .. }) = poll.into_parts();
    Either::Right(ready(Some(Answered { socket, read, unconfirmed, backoff, continuation })))
}

/// Closes a connection that accepts no more requests. If the peer's kernel has not acknowledged the response
/// by the time the connection ends, reports to the session that the client may not have received it.
async fn end<S: Socket, C: Send + 'static>(poll: HeldPoll<S, C>) {
    let (answer, services) = (UnconfirmedAnswer::of(&poll.attachment), Arc::clone(&poll.attachment.services));
    let (mut socket, _, _, request) = poll.into_parts();
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
        answer.report_lost(&services);
    }
    drop(request);
}

/// Creates the connection of an accepted request. `read` contains the bytes of the next request that were
/// already read.
pub(crate) fn open<S: Socket, C: Send + 'static>(
    socket: S,
    read: Vec<u8>,
    accepted: Accepted,
    services: Arc<Services>,
    continuation: C,
) -> HeldPoll<S, C> {
    let Accepted { mut attached, writer, is_due, channels, headers, keep_alive } = accepted;
    let recovered = attached.recovered;
    let revoked = std::mem::take(&mut attached.revoked);
    // Report revocations immediately.
    let is_due = is_due || !revoked.is_empty();
    let must_subscribe = !recovered || !revoked.is_empty() || !channels.is_empty();
    let subscriptions = must_subscribe.then(|| PendingSubscriptions::new(channels, revoked));
    let request = HeldRequest { writer, headers: headers.into(), keep_alive, continuation };
    let mut poll = Connection::new(socket, read, Attachment::new(attached, services), request);
    (poll.subscriptions, poll.recovered, poll.is_due) = (subscriptions, recovered, is_due);
    poll
}

impl<S: Socket, C: Send + 'static> Protocol<S> for HeldRequest<C> {
    type Commands = ();

    const TRANSPORT: Transport = Transport::Poll;

    /// Input is the next request, of which no more than the head is kept.
    const MAX_UNHANDLED_BYTES: usize = 16 * 1024;

    fn dialect(&self) -> DialectName {
        self.writer.dialect()
    }

    /// Keeps the input until the response has been sent. It is read to notice when the client disconnects.
    fn receive(&mut self, _: &mut [u8], _: &mut Fragments, _: &mut Link<'_, ()>) -> Handled {
        Handled { bytes: 0, end: None }
    }

    fn greet(&mut self, refused: &[RefusedChannel], recovered: bool, link: &mut Link<'_, ()>) {
        self.writer.greet(refused, recovered, link.attachment);
        *link.is_due |= !refused.is_empty();
    }

    /// Never called: polls are not pinged.
    fn write_ping(&mut self, sent: u64, _: &mut Vec<u8>) -> u64 {
        sent
    }

    /// A response ends the poll, which requires a task.
    fn can_send_while_parked(&self) -> bool {
        false
    }

    fn take_batch(
        &mut self,
        services: &Services,
        _: &SessionCell,
        outbox: &mut SessionOutbox,
        _: &mut Vec<u8>,
    ) -> DeliveryBatch {
        self.writer.begin_messages();
        let mut taken = DeliveryBatch::default();
        loop {
            let batch = take_batch(&services.sessions.subscriptions, outbox, &mut self.writer);
            taken.add(batch);
            if !taken.backlog.has_more || self.writer.len() >= MAX_RESPONSE_BYTES {
                return taken;
            }
        }
    }

    fn has_answer(&self) -> bool {
        self.writer.has_messages()
    }

    fn answer(&mut self, link: &mut Link<'_, ()>) {
        // From now on, the session sends nothing more to this poll. If a signal is already pending, it takes
        // precedence, and the next connection gets the messages taken here.
        if !link.attachment.notify_session(ConnectionInput::Sent) {
            let had_messages = self.writer.has_messages();
            self.writer.discard_messages();
            link.out.discard_sample();
            if had_messages {
                *link.is_due = true;
                return;
            }
        }
        let content = self.writer.respond(link.attachment);
        self.respond(&content, link);
    }

    fn superseded(&mut self, link: &mut Link<'_, ()>) {
        if link.out.is_empty() {
            let content = self.writer.respond_superseded(link.attachment);
            self.respond(&content, link);
        }
    }

    fn written(&mut self, link: &mut Link<'_, ()>) -> Result<(), Ending> {
        link.attachment.notify_session(ConnectionInput::Answered { pause: self.writer.pause() });
        Err(Ending::Released)
    }

    fn released(&mut self, code: CloseCode, link: &mut Link<'_, ()>) -> Result<(), Ending> {
        if link.out.is_empty() {
            let content = self.writer.respond_closed(code, link.attachment);
            self.respond(&content, link);
        }
        Ok(())
    }

    /// Never called: a poll ends with its response.
    fn write_farewell(_: CloseCode, _: &Services, _: &mut Vec<u8>) {}
}
