use std::convert::Infallible;
use std::future::{Future, pending, poll_fn, ready};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as Task, Poll};

use encke_base::locks::Mutex;
use futures_util::future::Either;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::ReadBuf;
use tokio::net::TcpStream;
use tokio::task::yield_now;

use super::context::{Context, NotServed};
use super::deadline::{ConnectionDeadline, serve_until};
use super::routing::{Answer, RequestOutcome, SessionlessConnection, SocketTakeover};
use super::shared_socket::SharedSocket;
use crate::admission::OpenConnection;
use crate::client::Services;
use crate::connection::transport::poll::UnconfirmedAnswer;
use crate::connection::{self, Socket, TcpSocket};
use crate::http::proxies::read_source;
use crate::http::{MAX_HEAD_BYTES, Reply, add_common_headers, keeps_alive};

/// A socket on which requests may arrive.
pub(super) enum IncomingSocket {
    /// A newly accepted socket.
    New(TcpStream),
    /// A socket after a poll, with the bytes that were already read from it. The last value is set if the
    /// client may not have received the response.
    AfterPoll(TcpSocket, Vec<u8>, Option<UnconfirmedAnswer>),
}

/// Guard that reports the previous response as lost unless the client has proven that it received it. Until
/// the client sends its next request, the response may be lost with the connection, however the connection
/// ends.
struct AnswerLossGuard<'a> {
    answered: UnconfirmedAnswer,
    peer: SharedSocket<TcpSocket>,
    /// Whether the client has sent its next request.
    has_next_request: &'a AtomicBool,
    /// Whether the client sent that request before it could have received the response, so that the request
    /// proves nothing.
    was_pipelined: bool,
    context: &'a Context,
}

impl Drop for AnswerLossGuard<'_> {
    fn drop(&mut self) {
        let is_proven = self.has_next_request.load(Ordering::Relaxed) && !self.was_pipelined;
        if !is_proven && self.peer.may_have_missed_bytes() {
            self.answered.report_lost(&self.context.client);
        }
    }
}

/// A socket that was taken over by a request.
pub(super) struct TakenSocket {
    pub(super) socket: TcpSocket,
    /// Bytes of the next request that were already read.
    pub(super) read_already: Vec<u8>,
    pub(super) takeover: SocketTakeover,
    /// Entry that counts the client's connection.
    pub(super) client_entry: OpenConnection,
}

impl IncomingSocket {
    /// Ready when there may be something to read.
    ///
    /// Polls in the same way as a read, so that the waker replaces the previous reader's. Otherwise, the
    /// socket would keep that reader's task in memory.
    fn poll_readable(&self, task: &mut Task<'_>) -> Poll<Result<(), NotServed>> {
        let readable = match self {
            // Peek, which asks the kernel: tokio assumes that an accepted socket is readable.
            Self::New(socket) => socket.poll_peek(task, &mut ReadBuf::new(&mut [0])).map_ok(|_| ()),
            Self::AfterPoll(socket, read_already, _) if read_already.is_empty() => {
                connection::poll_readable(socket, task)
            }
            Self::AfterPoll(..) => Poll::Ready(Ok(())),
        };
        readable.map_err(NotServed::ConnectionLost)
    }
}

impl SessionlessConnection<'_> {
    /// Waits for requests and serves them, until one of them takes over the socket.
    ///
    /// A single deadline covers all of this, because a timer costs more than the rest.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` would reserve room for its arguments twice")]
    pub(super) fn wait_for_takeover(
        &mut self,
        socket: IncomingSocket,
    ) -> impl Future<Output = Option<TakenSocket>> {
        async move {
            let stopped = pin!(self.context.stop.cancelled());
            let end = &mut ConnectionDeadline::new(self.timeout, self.handshake, stopped, self.context);
            if matches!(&socket, IncomingSocket::AfterPoll(_, read_already, _) if !read_already.is_empty()) {
                // Hundreds of requests may arrive in one packet. Let other tasks run first.
                yield_now().await;
            }
            let readable = serve_until(poll_fn(|task| socket.poll_readable(task)), end).await;
            if let Err(ended) = readable.flatten() {
                if let IncomingSocket::AfterPoll(socket, _, Some(answered)) = &socket
                    && socket.unacknowledged().bytes > 0
                {
                    answered.report_lost(&self.context.client);
                }
                ended.report(self.address, self.timeout, self.context);
                return None;
            }
            // The request is numbered once hyper has read bytes: a socket may be readable without having any.
            end.begin_reading();
            // Box this future, which contains all of hyper's state, so that it does not exist until something
            // arrives.
            let mut serve = Box::pin(self.serve(socket));
            let served = serve_until(serve.as_mut(), end).await;
            drop(serve);
            served.flatten().unwrap_or_else(|ended| {
                ended.report(self.address, self.timeout, self.context);
                None
            })
        }
    }

    /// Serves requests until one of them takes over the socket, which is then recovered from hyper.
    async fn serve(&mut self, socket: IncomingSocket) -> Result<Option<TakenSocket>, NotServed> {
        let (socket, read_already, answered) = match socket {
            IncomingSocket::New(socket) => (self.accept(socket).await?, Vec::new(), None),
            IncomingSocket::AfterPoll(socket, read_already, answered) => (socket, read_already, answered),
        };
        let this = &*self;
        let was_pipelined = !read_already.is_empty();
        let socket = SharedSocket::new(socket, read_already);
        let peer = socket.clone();
        let (takeover, has_next_request) = (<Mutex<_>>::new(None), AtomicBool::new(false));
        let service = service_fn(|request: Request<Incoming>| {
            this.timeout.request_arrives(peer.received(), this.context);
            let keeps_alive = keeps_alive(request.version(), request.headers());
            // Record the takeover immediately. If hyper finds that the client has disconnected, it may drop
            // the future below without polling it, and the session would never learn of the disconnect.
            let note = |by, entry| *takeover.lock() = Some((by, entry));
            let reply = match this.answer(request, keeps_alive, peer.clone()) {
                Answer::Now(RequestOutcome::Taken(by, entry)) => {
                    note(by, entry);
                    None
                }
                Answer::Now(outcome) => Some(Either::Left(ready(outcome))),
                Answer::Later(outcome) => Some(Either::Right(outcome)),
            };
            let is_first = !has_next_request.swap(true, Ordering::Relaxed);
            let peer = &peer;
            async move {
                let Some(reply) = reply else { return pending().await };
                let reply = match reply.await {
                    RequestOutcome::Reply(reply) => reply,
                    RequestOutcome::Taken(by, entry) => {
                        note(by, entry);
                        return pending().await;
                    }
                };
                // Hundreds of requests may arrive in one packet. Let other tasks run first.
                if !is_first {
                    yield_now().await;
                }
                peer.take_progress();
                Ok::<_, Infallible>(this.finish(reply, keeps_alive))
            }
        });
        let mut connection = http1::Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .auto_date_header(false)
            .serve_connection(TokioIo::new(socket), service)
            .with_upgrades();
        // Declared after `connection`, which owns the socket, so that it is dropped first.
        let _unproven = answered.map(|answered| AnswerLossGuard {
            answered,
            peer: peer.clone(),
            has_next_request: &has_next_request,
            was_pipelined,
            context: this.context,
        });
        let takeover = poll_fn(|context| {
            let ended = Pin::new(&mut connection).poll(context);
            this.timeout.note_progress(peer.take_progress(), this.context);
            match takeover.lock().take() {
                Some(takeover) => Poll::Ready(Ok(Some(takeover))),
                None => ended.map(|ended| ended.map(|()| None).map_err(NotServed::Http)),
            }
        });
        let Some((takeover, client_entry)) = takeover.await? else { return Ok(None) };
        let parts = connection.into_parts().expect("no response has upgraded the connection");
        let (socket, read_already) = parts.io.into_inner().into_parts(&parts.read_buf);
        Ok(Some(TakenSocket { socket, read_already, takeover, client_entry }))
    }

    /// Completes a response. After it, the next request is awaited.
    fn finish(&self, mut reply: Reply, keeps_alive: bool) -> Reply {
        let Services { settings, timeouts, .. } = &*self.context.client;
        let keep_alive = keeps_alive.then_some(settings.keep_alive_timeout);
        add_common_headers(&mut reply, timeouts.clock().unix_now(), keep_alive);
        self.timeout.await_request(self.context);
        reply
    }

    /// Handles everything before HTTP: the PROXY header and the TLS handshake.
    async fn accept(&mut self, socket: TcpStream) -> Result<TcpSocket, NotServed> {
        if self.context.proxies.proxy_protocol
            && let Some(client) = Box::pin(read_source(&socket)).await?
        {
            self.address = client;
            // Before the address is set: this connection must not be evicted for its own permit.
            self.open_connection = self.context.connections.enter(self.context.permit(client)?);
            self.handshake.set_address(client);
        }
        let accepted = connection::accept(socket, self.context.tls.as_deref()).await;
        let socket = accepted.map_err(NotServed::Tls)?;
        // A client may complete its TLS handshake, or a proxy send its header, long before the first request.
        self.timeout.await_first_request();
        Ok(socket)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::task::{Wake, Waker};

    use tokio::io::{AsyncRead, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    struct NoopWake;

    impl Wake for NoopWake {
        fn wake(self: Arc<Self>) {}
    }

    /// hyper allocates several kilobytes per connection, so it must not be set up for a silent socket.
    #[test]
    fn silent_socket_is_not_readable() -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let mut client = TcpStream::connect(listener.local_addr()?).await?;
            let arriving = IncomingSocket::New(listener.accept().await?.0);
            assert!(arriving.poll_readable(&mut Task::from_waker(Waker::noop())).is_pending());
            client.write_all(b"x").await?;
            poll_fn(|task| arriving.poll_readable(task)).await.map_err(|_| io::ErrorKind::Other)?;
            Ok(())
        })
    }

    /// A socket keeps the waker of the task that read last, and thereby that task's memory.
    #[test]
    fn waiting_task_replaces_the_reader() -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let _client = TcpStream::connect(listener.local_addr()?).await?;
            let mut socket = listener.accept().await?.0;
            let reader = Arc::new(NoopWake);
            let waker = Waker::from(Arc::clone(&reader));
            let before = Arc::strong_count(&reader);
            let mut byte = [0];
            let read =
                Pin::new(&mut socket).poll_read(&mut Task::from_waker(&waker), &mut ReadBuf::new(&mut byte));
            assert!(read.is_pending() && Arc::strong_count(&reader) == before + 1);
            let arriving = IncomingSocket::AfterPoll(TcpSocket::Left(socket), Vec::new(), None);
            assert!(arriving.poll_readable(&mut Task::from_waker(Waker::noop())).is_pending());
            assert_eq!(Arc::strong_count(&reader), before, "the waiting task has replaced the reader");
            Ok(())
        })
    }
}
