//! The hyper control: upgrades and connections.

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

use crate::SEND_BUFFER;
use crate::hub::Hub;
use crate::messages::{HELLO, PING_PAYLOAD};
use crate::pinger::{ConnectionSignal, Pinger};

/// Same as the server's.
const READ_BUFFER: usize = 256;

/// Serves HTTP/1.1 on one connection until it is upgraded.
pub(crate) fn serve(socket: TcpStream, pinger: Arc<Pinger>, hub: Arc<Hub>) {
    tokio::spawn(async move {
        let service = service_fn(|request| {
            let reply = upgrade(request, &pinger, &hub);
            async { Ok::<_, Infallible>(reply) }
        });
        // Ignore errors: the benchmark counts them at the client.
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
    // Use a separate task, so that hyper's task ends with the upgrade and its buffers are freed.
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        // Box the future, because a task permanently occupies the space of its largest state.
        let socket = Box::pin(websocket(upgraded)).await;
        let mut connection =
            HyperConnection { socket, signal: pinger.add(), hub, cursor: NOT_SUBSCRIBED, unflushed: false };
        drop(pinger);
        // An error closes the connection, but is not reported.
        if connection.write(Message::text(HELLO)).is_ok() {
            let _ = poll_fn(|context| connection.poll(context)).await;
        }
    });
    reply
}

/// Creates the WebSocket, and frees hyper's read buffer. The buffer takes 8 KB and is usually empty, because
/// clients wait for the response before they send.
async fn websocket(upgraded: Upgraded) -> WebSocketStream<TcpStream> {
    let parts =
        upgraded.downcast::<TokioIo<TcpStream>>().expect("the connection is served on a TokioIo<TcpStream>");
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(0)
        .max_write_buffer_size(SEND_BUFFER);
    let read_already = parts.read_buf.to_vec();
    drop(parts.read_buf);
    WebSocketStream::from_partially_read(parts.io.into_inner(), read_already, Role::Server, Some(config))
        .await
}

/// Cursor of a connection that is not subscribed: no message comes after it.
const NOT_SUBSCRIBED: usize = usize::MAX;

struct HyperConnection {
    socket: WebSocketStream<TcpStream>,
    signal: Arc<ConnectionSignal>,
    hub: Arc<Hub>,
    /// Number of the hub's messages that were sent to the client or precede its subscription.
    cursor: usize,
    /// Whether tungstenite may still have unsent bytes.
    unflushed: bool,
}

impl HyperConnection {
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

    /// Sends a ping if one was requested, sends new messages, and reads until the connection ends.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.signal.take_ping_request(context) {
            self.write(Message::Ping(Bytes::from_static(&PING_PAYLOAD)))?;
        }
        loop {
            ready!(self.flush(context))?;
            // Send one message at a time: the next one is sent when the kernel has accepted this one.
            while let Some(text) = self.hub.next(self.cursor) {
                self.cursor += 1;
                self.write(Message::Text(text))?;
                ready!(self.flush(context))?;
            }
            match ready!(self.socket.poll_next_unpin(context)) {
                Some(Ok(Message::Text(text))) => {
                    let reply = self.hub.carry_out(&text, &self.signal, &mut self.cursor);
                    reply.map_or(Ok(()), |reply| self.write(Message::text(reply)))?;
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => return Poll::Ready(Ok(())),
            }
        }
    }
}
