use std::convert::Infallible;
use std::future::{Future, pending, poll_fn, ready};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as Task, Poll};

use encke_core::dialect::json::Json;
use encke_core::session::ConnectionInput;
use futures_util::future::Either;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::task::yield_now;

use super::end::{End, RequestTimeout, until};
use super::request::{Answer, Outcome};
use super::{Context, NotServed, polls};
use crate::admission::{Handshake, OpenConnection};
use crate::client::Attachment;
use crate::http::{Lent, MAX_HEAD_BYTES, Peer, Rewound};
use crate::proxies::read_source;
use crate::session::{Link, SessionHandle};
use crate::transport::poll::{ConnectForm, JsonForm};
use crate::transport::websocket::Upgrade;
use crate::transport::{Socket, TcpSocket, poll, sse};

/// A socket on which requests may come.
pub(super) enum Arriving {
    /// As it was accepted.
    Raw(TcpStream),
    /// After a poll, with what was read already.
    Again(TcpSocket, Vec<u8>, Option<Answered>),
}

/// The session of a poll that was answered on this connection, and does not say what it has.
pub(super) struct Answered {
    session: SessionHandle,
    link: Arc<Link>,
}

impl Answered {
    pub(super) fn of(attachment: &Attachment) -> Self {
        Self { session: attachment.session.clone(), link: Arc::clone(&attachment.link) }
    }

    /// The client may not have the answer.
    fn is_lost(&self, context: &Context) {
        context.client.sessions.handle_connection(&self.session, self.link.id, ConnectionInput::AnswerLost);
    }
}

/// Until the client asks for something else, the answer before may be lost with the connection, however that ends.
struct Unproven<'a> {
    answered: Answered,
    peer: Peer<TcpSocket>,
    /// Whether the client has asked.
    has_asked: &'a AtomicBool,
    /// It had done so before it could have the answer, which proves nothing.
    has_asked_ahead: bool,
    context: &'a Context,
}

impl Drop for Unproven<'_> {
    fn drop(&mut self) {
        let is_proven = self.has_asked.load(Ordering::Relaxed) && !self.has_asked_ahead;
        if !is_proven && self.peer.may_lack() {
            self.answered.is_lost(self.context);
        }
    }
}

/// What a request has taken the socket for.
pub(super) enum Taken {
    WebSocket(Upgrade<Json>),
    Events(sse::Accepted),
    Poll(poll::Accepted<JsonForm>),
    Connect(poll::Accepted<Box<ConnectForm>>),
}

/// The socket, once a request has taken it.
pub(super) struct Served {
    pub(super) socket: TcpSocket,
    /// What was read of the next request.
    pub(super) read_already: Vec<u8>,
    pub(super) taken: Taken,
    /// Its place among the connections of its client.
    pub(super) of_client: OpenConnection,
}

/// A connection that no session has: before its first, or between two polls.
#[derive(Clone)]
pub(super) struct Arrival<'a> {
    pub(super) context: &'a Arc<Context>,
    /// Whose it is. Behind a proxy that is the proxy, until it has named its client.
    pub(super) address: IpAddr,
    /// Until it has shown that it has a session.
    pub(super) handshake: Option<&'a Handshake>,
    pub(super) open_connection: OpenConnection,
    pub(super) timeout: &'a RequestTimeout,
}

/// Serves a connection in a task of its own. Until its client says something, the task is small, and nothing else is there.
pub(super) fn spawn(
    socket: TcpStream,
    peer: IpAddr,
    handshake: Handshake,
    open_connection: OpenConnection,
    context: Arc<Context>,
) {
    tokio::spawn(async move {
        let timeout = RequestTimeout::new(&context, false);
        let handshake = Some(&handshake);
        let stopped = pin!(context.stop.cancelled());
        let mut end = End::new(&timeout, handshake, stopped, &context);
        let mut arrival =
            Arrival { context: &context, address: peer, handshake, open_connection, timeout: &timeout };
        let Some(served) = arrival.request(Arriving::Raw(socket), &mut end).await else { return };
        polls::hand_on(served, arrival.address, arrival.open_connection, &context);
    });
}

impl Arriving {
    /// A request has come already, or part of it.
    fn has_more(&self) -> bool {
        matches!(self, Self::Again(_, read_already, _) if !read_already.is_empty())
    }

    /// Ready when there may be something to read.
    ///
    /// Asked as a read would ask, it takes the place of the task that has read before: else the socket would keep that one's memory.
    fn poll_readable(&self, task: &mut Task<'_>) -> Poll<Result<(), NotServed>> {
        let readable = match self {
            Self::Raw(socket) => socket.poll_read_ready(task),
            Self::Again(socket, read_already, _) if read_already.is_empty() => socket.poll_readable(task),
            Self::Again(..) => Poll::Ready(Ok(())),
        };
        readable.map_err(NotServed::Gone)
    }
}

impl Arrival<'_> {
    /// Waits for a request, and serves it, and those that follow, until one of them takes the socket.
    ///
    /// One `end` for all of it: a timer costs more than the rest.
    #[expect(clippy::manual_async_fn, reason = "it would have room for its arguments twice")]
    pub(super) fn request(
        &mut self,
        socket: Arriving,
        end: &mut End<'_, '_>,
    ) -> impl Future<Output = Option<Served>> {
        async move {
            if socket.has_more() {
                // Requests may come by the hundred in one packet: others first.
                yield_now().await;
            }
            if let Err(ended) = until(poll_fn(|task| socket.poll_readable(task)), end).await {
                if let Arriving::Again(socket, _, Some(answered)) = &socket
                    && socket.unacknowledged().bytes > 0
                {
                    answered.is_lost(self.context);
                }
                ended.tell(self.address, self.timeout, self.context);
                return None;
            }
            // Boxed, with all that hyper needs: it is not there while nothing comes.
            let mut serve = Box::pin(self.serve(socket));
            let served = until(serve.as_mut(), end).await;
            drop(serve);
            served.unwrap_or_else(|ended| {
                ended.tell(self.address, self.timeout, self.context);
                None
            })
        }
    }

    /// Serves requests until one of them takes the socket, which it gets back from here.
    async fn serve(&mut self, socket: Arriving) -> Result<Option<Served>, NotServed> {
        let (socket, read_already, answered) = match socket {
            Arriving::Raw(socket) => (self.accept(socket).await?, Vec::new(), None),
            Arriving::Again(socket, read_already, answered) => (socket, read_already, answered),
        };
        let this = &*self;
        let has_asked_ahead = !read_already.is_empty();
        let (socket, peer) = Lent::new(socket);
        let (taken, has_asked) = (Mutex::new(None), AtomicBool::new(false));
        let service = service_fn(|request| {
            // Noted at once: hyper may drop what is below without a look at it, when it finds that the client is gone. The session
            // would never learn of that.
            let note = |by| *taken.lock() = Some(by);
            let reply = match this.answer(request, &peer) {
                Answer::Reply(reply) => Some(Either::Left(ready(Outcome::Reply(reply)))),
                Answer::Later(outcome) => Some(Either::Right(outcome)),
                Answer::Taken(by, open_connection) => {
                    note((by, open_connection));
                    None
                }
            };
            let is_first = !has_asked.swap(true, Ordering::Relaxed);
            async move {
                let Some(reply) = reply else { return pending().await };
                let reply = match reply.await {
                    Outcome::Reply(reply) => reply,
                    Outcome::Taken(by, open_connection) => {
                        note((by, open_connection));
                        return pending().await;
                    }
                };
                // Requests may come by the hundred in one packet: others first.
                if !is_first {
                    yield_now().await;
                }
                Ok::<_, Infallible>(reply)
            }
        });
        let mut connection = http1::Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(Rewound::new(socket, read_already)), service)
            .with_upgrades();
        // Dropped before the connection, which has the socket.
        let _unproven = answered.map(|answered| Unproven {
            answered,
            peer: peer.clone(),
            has_asked: &has_asked,
            has_asked_ahead,
            context: this.context,
        });
        let taken = poll_fn(|context| {
            let ended = Pin::new(&mut connection).poll(context);
            match taken.lock().take() {
                Some(taken) => Poll::Ready(Ok(Some(taken))),
                None => ended.map(|ended| ended.map(|()| None).map_err(NotServed::Http)),
            }
        });
        let Some((taken, of_client)) = taken.await? else { return Ok(None) };
        let parts = connection.into_parts().expect("it was not upgraded, for no request had that answer");
        let (socket, read_already) = parts.io.into_inner().into_parts(&parts.read_buf);
        Ok(Some(Served { socket: socket.into_inner(), read_already, taken, of_client }))
    }

    /// What comes before HTTP.
    async fn accept(&mut self, socket: TcpStream) -> Result<TcpSocket, NotServed> {
        if self.context.proxies.proxy_protocol
            && let Some(client) = Box::pin(read_source(&socket)).await?
        {
            self.address = client;
            if let Some(handshake) = self.handshake {
                handshake.is_of(client);
            }
            self.open_connection = self.context.connections.enter(self.context.permit(client)?);
        }
        TcpSocket::accept(socket, self.context.tls.as_deref()).await.map_err(NotServed::Tls)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::task::{Wake, Waker};

    use tokio::io::{AsyncRead, ReadBuf};
    use tokio::net::TcpListener;

    use super::*;

    struct Nobody;

    impl Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }

    /// A socket remembers the task that has read from it last, and so keeps its memory.
    #[test]
    fn the_task_that_waits_takes_the_place_of_the_one_that_has_read() -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let _client = TcpStream::connect(listener.local_addr()?).await?;
            let mut socket = listener.accept().await?.0;
            let reader = Arc::new(Nobody);
            let waker = Waker::from(Arc::clone(&reader));
            let before = Arc::strong_count(&reader);
            let mut byte = [0];
            let read =
                Pin::new(&mut socket).poll_read(&mut Task::from_waker(&waker), &mut ReadBuf::new(&mut byte));
            assert!(read.is_pending() && Arc::strong_count(&reader) == before + 1);
            let arriving = Arriving::Again(TcpSocket::Plain(socket), Vec::new(), None);
            assert!(arriving.poll_readable(&mut Task::from_waker(Waker::noop())).is_pending());
            assert_eq!(Arc::strong_count(&reader), before, "the one that waits");
            Ok(())
        })
    }
}
