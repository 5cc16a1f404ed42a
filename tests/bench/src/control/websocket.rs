use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::hub::{Answer, Hub};
use crate::pinger::{Bell, Pinger};
use crate::socket::SEND_BUFFER;
use crate::words::{HELLO, PING_PAYLOAD};

/// As small as the server has it.
const READ_BUFFER: usize = 256;

/// Serves HTTP/1.1 on one connection until it is upgraded.
pub(crate) fn serve(socket: TcpStream, pinger: Arc<Pinger>, hub: Arc<Hub>) {
    tokio::spawn(async move {
        let service = service_fn(|request| {
            let reply = upgrade(request, &pinger, &hub);
            async { Ok::<_, Infallible>(reply) }
        });
        // What goes wrong here is the client's loss, and the bench counts it there.
        let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service).with_upgrades().await;
    });
}

fn upgrade(mut request: Request<Incoming>, pinger: &Arc<Pinger>, hub: &Arc<Hub>) -> Response<Empty<Bytes>> {
    let Ok(reply) = create_response_with_body(&request, Empty::new) else {
        let mut reply = Response::new(Empty::new());
        *reply.status_mut() = StatusCode::UPGRADE_REQUIRED;
        return reply;
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let (pinger, hub) = (Arc::clone(pinger), Arc::clone(hub));
    // A task of its own: hyper's, with its buffers, ends with the upgrade and is freed.
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        // Boxed, for a task is as large as what it may hold at once, for all its life.
        let socket = Box::pin(websocket(upgraded)).await;
        let mut connection =
            Connection { socket, bell: pinger.add(), hub, cursor: NOT_SUBSCRIBED, unflushed: false };
        drop(pinger);
        // A connection that fails is over; there is no one to tell.
        if connection.write(Message::text(HELLO)).is_ok() {
            let _ = poll_fn(|context| connection.poll(context)).await;
        }
    });
    reply
}

/// hyper's read buffer ends here: it holds 8 KB, and nothing as a rule, since clients wait for the answer.
async fn websocket(upgraded: Upgraded) -> WebSocketStream<TcpStream> {
    let parts = upgraded.downcast::<TokioIo<TcpStream>>().expect("hyper was given a TcpStream in a TokioIo");
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(0)
        .max_write_buffer_size(SEND_BUFFER);
    let read_already = parts.read_buf.to_vec();
    drop(parts.read_buf);
    WebSocketStream::from_partially_read(parts.io.into_inner(), read_already, Role::Server, Some(config))
        .await
}

/// The cursor of a connection that wants no messages: nothing comes after it.
const NOT_SUBSCRIBED: usize = usize::MAX;

struct Connection {
    socket: WebSocketStream<TcpStream>,
    bell: Arc<Bell>,
    hub: Arc<Hub>,
    /// How many of the hub's messages it has had, or is not to have.
    cursor: usize,
    /// Something was handed to tungstenite that the kernel may not have yet.
    unflushed: bool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.bell.retire();
    }
}

impl Connection {
    fn write(&mut self, message: Message) -> Result<(), Error> {
        self.unflushed = true;
        self.socket.start_send_unpin(message)
    }

    fn flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.unflushed {
            ready!(self.socket.poll_flush_unpin(context))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Pings when the bell rings, passes on what is published, and reads until the end.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.bell.was_rung(context) {
            self.write(Message::Ping(Bytes::from_static(&PING_PAYLOAD)))?;
        }
        loop {
            ready!(self.flush(context))?;
            // One at a time: the next one when the kernel has this one.
            while self.cursor < self.hub.published()
                && let Some(text) = self.hub.next(self.cursor)
            {
                self.cursor += 1;
                self.write(Message::Text(text))?;
                ready!(self.flush(context))?;
            }
            match ready!(self.socket.poll_next_unpin(context)) {
                Some(Ok(Message::Text(text))) => self.carry_out(&text)?,
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => return Poll::Ready(Ok(())),
            }
        }
    }

    fn carry_out(&mut self, text: &str) -> Result<(), Error> {
        match self.hub.carry_out(text, &self.bell) {
            Answer::Subscribed { cursor, reply } => {
                self.cursor = cursor;
                self.write(Message::text(reply))
            }
            Answer::Published { reply } => self.write(Message::text(reply)),
            Answer::None => Ok(()),
        }
    }
}
