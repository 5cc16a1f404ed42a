//! Bayeux clients. The simulation does not include hyper, which reads and answers requests in the real
//! server.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use encke_base::executor::yield_now;
use futures_util::future::select;
use hyper::Request;
use hyper::header::{CONNECTION, COOKIE, HeaderMap, HeaderValue};
use tokio::io::AsyncWriteExt;

use super::polls::{HeldPollGuard, hold};
use super::{HttpResponse, RequestArrival, SimulatedServer, SimulatedSocket, Task, socket};
use crate::client::Caller;
use crate::connection::transport::poll::{self, ResponseWriter};
use crate::public::{Requester, SharedSocket, SocketUpgrade, request_with_body, serve_socket};

/// An HTTP request that contains a `/meta/connect`.
#[derive(Clone, Debug)]
pub struct ConnectRequest {
    /// The array of messages.
    pub body: String,
    /// Whether the client closes the connection after this request. If not, no other request follows either,
    /// because reading it would need hyper.
    pub is_last: bool,
    /// Value of the `BAYEUX_BROWSER` cookie, if present.
    pub browser: Option<u128>,
}

/// State of an accepted `/meta/connect`.
#[derive(Clone, Debug)]
pub struct AcceptedConnect {
    /// Id of the session.
    pub session: String,
    /// Whether the request is answered immediately.
    pub is_due: bool,
    /// Whether the request counts towards the limit of its browser.
    pub counts_for_browser: bool,
}

impl SimulatedServer {
    /// Answers a request with a `/meta/connect`. Calls `held` when the request is accepted.
    pub fn serve_connect(
        &self,
        socket: impl SimulatedSocket,
        address: IpAddr,
        connect: ConnectRequest,
        arrival: RequestArrival,
        held: impl FnOnce(AcceptedConnect) + Send + 'static,
    ) -> Task {
        let public = Arc::clone(&self.public);
        let open_connection = self.public.connections.enter(None);
        Box::pin(async move {
            let client = &public.client;
            let ConnectRequest { body, is_last, browser } = connect;
            let mut request = request(body, is_last);
            if let Some(browser) = browser {
                let cookie = format!("BAYEUX_BROWSER={browser:032x}");
                request
                    .headers_mut()
                    .insert(COOKIE, HeaderValue::try_from(cookie).expect("letters and digits"));
            }
            let socket = SharedSocket::new(socket::Adapter(socket), Vec::new());
            let answered = request_with_body(request, address, arrival.0, client)
                .answer(&public, || (), || socket.has_disconnected())
                .await;
            let (mut socket, _) = socket.into_parts(b"");
            match answered {
                Ok(accepted) => {
                    let ResponseWriter::Bayeux(writer) = &accepted.writer else {
                        unreachable!("the request is a Bayeux request")
                    };
                    held(AcceptedConnect {
                        session: accepted.attached.session.id().to_string(),
                        is_due: accepted.is_due,
                        counts_for_browser: writer.browser.is_some(),
                    });
                    // Yield in place of the step that takes the socket back from hyper.
                    yield_now().await;
                    let guard = HeldPollGuard(open_connection);
                    let poll = poll::open(socket, Vec::new(), accepted, Arc::clone(client), guard);
                    hold(poll, true).await;
                }
                Err(reply) => {
                    let HttpResponse { status, body } = HttpResponse::from(*reply);
                    let head = format!("HTTP/1.1 {status} -\r\ncontent-length: {}\r\n\r\n", body.len());
                    let answer = [head.as_bytes(), &body].concat();
                    let written = pin!(async {
                        // Ignore errors: the client may have disconnected.
                        let _ = socket.write_all(&answer).await;
                        let _ = socket.shutdown().await;
                    });
                    select(written, client.timeouts.sleep(client.settings.close_timeout)).await;
                }
            }
        })
    }

    /// Serves a WebSocket whose upgrade request was just answered with 101.
    pub fn serve_bayeux_socket(&self, socket: impl SimulatedSocket, address: IpAddr) -> Task {
        let caller = Caller::from_request(&Request::new(()), address, &self.public.client.access.auth)
            .with_arrival(self.number_request().0);
        let open_connection = self.public.connections.enter(None);
        let requester = Requester { caller, query_token: None, headers: HeaderMap::new() };
        let upgrade = SocketUpgrade { requester, _open_connection: open_connection };
        let upgraded = std::future::ready(Some((socket::Adapter(socket), Vec::new())));
        Box::pin(serve_socket(upgrade, upgraded, Arc::clone(&self.public)))
    }

    /// Executes the messages of a request without a `/meta/connect`, and passes the response to `answer`.
    pub fn serve_bayeux_commands(
        &self,
        address: IpAddr,
        body: String,
        answer: impl FnOnce(HttpResponse) + Send + 'static,
    ) -> Task {
        let public = Arc::clone(&self.public);
        let arrival = self.number_request().0;
        Box::pin(async move {
            let asked = request_with_body(request(body, true), address, arrival, &public.client);
            if let Err(reply) = asked.answer(&public, || (), || false).await {
                answer((*reply).into());
            }
        })
    }
}

fn request(body: String, is_last: bool) -> Request<String> {
    let mut request = Request::new(body);
    if is_last {
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    request
}
