//! Clients of Bayeux. hyper, which reads and answers their requests, is not in the simulation.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::select;
use hyper::Request;
use hyper::header::{CONNECTION, COOKIE, HeaderMap, HeaderValue};
use tokio::io::AsyncWriteExt;

use super::polls::{Resting, hold};
use super::{Answer, Server, Socket, Task, socket};
use crate::client::Caller;
use crate::http::Lent;
use crate::public::{SocketUpgrade, asked_in, serve_socket};
use crate::transport::poll;

/// A request with a `/meta/connect`.
#[derive(Clone, Debug)]
pub struct ConnectRequest {
    /// All messages.
    pub body: String,
    /// The last on its connection or not: the next would need hyper, and so does not come.
    pub is_last: bool,
    /// What the browser calls itself, if it has been told to.
    pub browser: Option<u128>,
}

/// What has become of it.
#[derive(Clone, Debug)]
pub struct HeldConnect {
    /// The session that it has.
    pub session: String,
    /// It is answered at once.
    pub is_due: bool,
    /// It counts for its browser.
    pub has_place: bool,
}

impl Server {
    /// Answers a request with a `/meta/connect`. `held` hears what has become of it, unless it is refused at once.
    pub fn serve_connect(
        &self,
        socket: impl Socket,
        address: IpAddr,
        connect: ConnectRequest,
        held: impl FnOnce(HeldConnect) + Send + 'static,
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
            let (socket, peer) = Lent::new(socket::Adapter(socket));
            let answered = asked_in(request, address, client).answer(&public, || (), || peer.is_gone()).await;
            let mut socket = socket.into_inner();
            match answered {
                Ok(accepted) => {
                    held(HeldConnect {
                        session: accepted.attached.session.id().to_string(),
                        is_due: accepted.is_due,
                        has_place: accepted.form.browser.is_some(),
                    });
                    // hyper has to be taken apart.
                    yield_once().await;
                    let poll = poll::open(socket, Vec::new(), accepted, Arc::clone(client));
                    hold(poll, Resting(open_connection)).await;
                }
                Err(reply) => {
                    let Answer { status, body } = Answer::from(*reply);
                    let head = format!("HTTP/1.1 {status} -\r\ncontent-length: {}\r\n\r\n", body.len());
                    let answer = [head.as_bytes(), &body].concat();
                    let written = pin!(async {
                        // A client that is gone is nobody's loss.
                        let _ = socket.write_all(&answer).await;
                        let _ = socket.shutdown().await;
                    });
                    select(written, client.timeouts.sleep(client.settings.close_timeout)).await;
                }
            }
        })
    }

    /// Serves a WebSocket whose request was just answered with 101.
    pub fn serve_bayeux_socket(&self, socket: impl Socket, address: IpAddr) -> Task {
        let caller = Caller::of(&Request::new(()), address, &self.public.client.auth);
        let open_connection = self.public.connections.enter(None);
        let upgrade = SocketUpgrade {
            caller,
            query_token: None,
            headers: HeaderMap::new(),
            _open_connection: open_connection,
        };
        let upgraded = std::future::ready(Some((socket::Adapter(socket), Vec::new())));
        Box::pin(serve_socket(upgrade, upgraded, Arc::clone(&self.public)))
    }

    /// Carries out the messages of a request without a `/meta/connect`, and hands `answer` over what their client is told.
    pub fn ask_bayeux(
        &self,
        address: IpAddr,
        body: String,
        answer: impl FnOnce(Answer) + Send + 'static,
    ) -> Task {
        let public = Arc::clone(&self.public);
        Box::pin(async move {
            let asked = asked_in(request(body, true), address, &public.client);
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

async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|task| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        task.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
