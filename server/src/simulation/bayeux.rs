//! Requests of Bayeux. hyper, which reads and answers them, is not in the simulation.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::select;
use hyper::Request;
use hyper::header::CONNECTION;
use tokio::io::AsyncWriteExt;

use super::{Answer, Server, Socket, Task, socket};
use crate::http::Lent;
use crate::public::asked_in;
use crate::transport::poll;

impl Server {
    /// Answers a request with a `/meta/connect`, the last on its connection or not: the next would need hyper, and so does not come.
    /// `held` hears the session that the request has, unless it is refused at once.
    pub fn serve_connect(
        &self,
        socket: impl Socket,
        address: IpAddr,
        body: String,
        is_last: bool,
        held: impl FnOnce(String) + Send + 'static,
    ) -> Task {
        let public = Arc::clone(&self.public);
        let open_connection = self.public.connections.enter(None);
        Box::pin(async move {
            let _open_connection = open_connection;
            let client = &public.client;
            let (socket, peer) = Lent::new(socket::Adapter(socket));
            let asked = asked_in(request(body, is_last), address, client);
            let answered = asked.answer(&public, || (), || peer.is_gone()).await;
            let mut socket = socket.into_inner();
            match answered {
                Ok(accepted) => {
                    held(accepted.attached.session.id().to_string());
                    // hyper has to be taken apart.
                    yield_once().await;
                    poll::serve(socket, Vec::new(), accepted, Arc::clone(client)).await;
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
        request.headers_mut().insert(CONNECTION, hyper::header::HeaderValue::from_static("close"));
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
