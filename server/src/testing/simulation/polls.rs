//! Long-polling requests. The simulation does not include hyper, which reads and answers requests in the real
//! server.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

use hyper::Request;

use super::socket::Adapter;
use super::{HttpResponse, RequestArrival, SimulatedServer, SimulatedSocket, Task};
use crate::admission::OpenConnection;
use crate::client::{Attachment, Caller};
use crate::commands::CommandContext;
use crate::connection::Parkable;
use crate::connection::transport::poll::{self, HeldRequest};
use crate::public::{accept_poll, carry_out_all, session_of};
use crate::session::CommandSource;

/// A held long-polling request.
#[expect(missing_debug_implementations, reason = "tasks do not implement Debug")]
pub struct HeldPoll {
    /// Task that holds and answers the request.
    pub task: Task,
    /// Id of the session.
    pub session: String,
    /// Whether the session is the one that the client asked to resume.
    pub recovered: bool,
}

/// Resources of a held poll.
pub(super) struct HeldPollGuard(
    #[expect(dead_code, reason = "held until it is dropped")] pub(super) OpenConnection,
);

impl<S: SimulatedSocket> Parkable<Adapter<S>> for HeldRequest<HeldPollGuard> {
    fn run(
        poll: poll::HeldPoll<Adapter<S>, HeldPollGuard>,
    ) -> impl Future<Output: Send + 'static> + Send + 'static {
        hold(poll, false)
    }
}

/// Holds a poll until its connection is closed.
#[expect(clippy::manual_async_fn, reason = "the function is recursive, so its bounds must be explicit")]
pub(super) fn hold<S: SimulatedSocket>(
    poll: poll::HeldPoll<Adapter<S>, HeldPollGuard>,
    is_new: bool,
) -> impl Future<Output = ()> + Send + 'static {
    async move {
        if is_new {
            {
                let Attachment { services, session, .. } = &poll.attachment;
                services.count_request(session).await;
            }
        }
        poll::serve(poll).await;
    }
}

impl SimulatedServer {
    /// Holds a long-polling request that arrived earlier. `is_last` adds `Connection: close`; no other
    /// request follows on the connection in either case, because reading it would need hyper.
    ///
    /// # Errors
    /// The response, if the request gets no session.
    ///
    /// # Panics
    /// If the target is not a valid HTTP target.
    pub fn serve_poll(
        &self,
        socket: impl SimulatedSocket,
        address: IpAddr,
        target: &str,
        is_last: bool,
        arrival: RequestArrival,
    ) -> Result<HeldPoll, HttpResponse> {
        let client = &self.public.client;
        let mut request = Request::get(target);
        if is_last {
            request = request.header("connection", "close");
        }
        let request = request.body(()).expect("a valid target");
        let caller = Caller::from_request(&request, address, &client.access.auth).with_arrival(arrival.0);
        let socket = Adapter(socket);
        let accepted = accept_poll(&request, &caller, client, || socket.0.is_over())
            .map_err(|reply| HttpResponse::from(*reply))?;
        let session = accepted.attached.session.id().to_string();
        let recovered = accepted.attached.recovered;
        let open_connection = self.public.connections.enter(None);
        let guard = HeldPollGuard(open_connection);
        let poll = poll::open(socket, Vec::new(), accepted, Arc::clone(client), guard);
        let task = Box::pin(hold(poll, true));
        Ok(HeldPoll { task, session, recovered })
    }

    /// Executes the commands in a body, and passes the response to `answer`.
    ///
    /// # Errors
    /// The response to a request without a session.
    ///
    /// # Panics
    /// If the target is not a valid HTTP target.
    pub fn execute_commands(
        &self,
        address: IpAddr,
        target: &str,
        body: Vec<u8>,
        answer: impl FnOnce(HttpResponse) + Send + 'static,
    ) -> Result<Task, HttpResponse> {
        let client = Arc::clone(&self.public.client);
        let request = Request::post(target).body(()).expect("a valid target");
        let caller = Caller::from_request(&request, address, &client.access.auth);
        let session = session_of(&request, &caller, &client).map_err(|reply| HttpResponse::from(*reply))?;
        Ok(Box::pin(async move {
            let speaker = CommandContext {
                session: &session,
                services: &client,
                source: CommandSource::request(caller.address),
            };
            answer(carry_out_all(&body, speaker).await.into());
        }))
    }
}
