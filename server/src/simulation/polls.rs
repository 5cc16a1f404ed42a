//! Requests of long-polling. hyper, which reads and answers them, is not in the simulation.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

use hyper::Request;

use super::socket::Adapter;
use super::{Answer, Server, Socket, Task};
use crate::admission::OpenConnection;
use crate::client::{Caller, Speaker};
use crate::public::{accept_poll, carry_out_all, session_of};
use crate::session::Via;
use crate::transport::poll::{self, Form, Held};

/// A request that is held.
#[expect(missing_debug_implementations, reason = "tasks have none")]
pub struct Poll {
    /// Holds and answers it.
    pub task: Task,
    /// The session that it has.
    pub session: String,
    /// Whether that is the one that it asked for.
    pub recovered: bool,
}

/// What goes with a poll that is held.
pub(super) struct Resting(#[expect(dead_code, reason = "held for its drop")] pub(super) OpenConnection);

impl<S: Socket, F: Form> poll::Polls<Adapter<S>, F> for Resting {
    fn go_on(
        self,
        poll: poll::Connection<Adapter<S>, F>,
    ) -> impl Future<Output: Send + 'static> + Send + 'static {
        hold(poll, self)
    }
}

/// Holds a poll until its connection is over.
#[expect(clippy::manual_async_fn, reason = "its bounds are to be known where it is used within itself")]
pub(super) fn hold<S: Socket, F: Form>(
    poll: poll::Connection<Adapter<S>, F>,
    resting: Resting,
) -> impl Future<Output = ()> + Send + 'static {
    async move {
        if let Held::Quiet(poll) = poll::serve(poll).await {
            poll::rest(poll, resting);
        }
    }
}

impl Server {
    /// Holds a request of long-polling, the last on its connection or not: the next would need hyper, and so does not come.
    ///
    /// # Errors
    /// The answer that it gets instead of a session.
    ///
    /// # Panics
    /// If the target is not one of HTTP.
    pub fn serve_poll(
        &self,
        socket: impl Socket,
        address: IpAddr,
        target: &str,
        is_last: bool,
    ) -> Result<Poll, Answer> {
        let client = &self.public.client;
        let mut request = Request::get(target);
        if is_last {
            request = request.header("connection", "close");
        }
        let request = request.body(()).expect("a target of HTTP");
        let caller = Caller::of(&request, address, &client.auth);
        let socket = Adapter(socket);
        let accepted = accept_poll(&request, &caller, client, || socket.0.is_over())
            .map_err(|reply| Answer::from(*reply))?;
        let session = accepted.attached.session.id().to_string();
        let recovered = accepted.attached.recovered;
        let open_connection = self.public.connections.enter(None);
        let poll = poll::open(socket, Vec::new(), accepted, Arc::clone(client));
        let task = Box::pin(hold(poll, Resting(open_connection)));
        Ok(Poll { task, session, recovered })
    }

    /// Carries out the commands in a body, and hands `answer` over what their client is told.
    ///
    /// # Errors
    /// The answer to a request without a session.
    ///
    /// # Panics
    /// If the target is not one of HTTP.
    pub fn carry_out(
        &self,
        address: IpAddr,
        target: &str,
        body: Vec<u8>,
        answer: impl FnOnce(Answer) + Send + 'static,
    ) -> Result<Task, Answer> {
        let client = Arc::clone(&self.public.client);
        let request = Request::post(target).body(()).expect("a target of HTTP");
        let caller = Caller::of(&request, address, &client.auth);
        let session = session_of(&request, &caller, &client).map_err(|reply| Answer::from(*reply))?;
        Ok(Box::pin(async move {
            let speaker = Speaker { session: &session, context: &client, via: Via::request(caller.address) };
            answer(carry_out_all(&body, speaker).await.into());
        }))
    }
}
