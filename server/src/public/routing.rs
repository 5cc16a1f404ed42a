//! Routes requests by their paths.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use encke_core::dialect::json::Json;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::body::{Body, Incoming};
use hyper::header::{
    CONNECTION, EXPECT, HeaderMap, HeaderValue, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite;

use super::bayeux::{Requester, SocketUpgrade};
use super::context::{Context, NotServed};
use super::deadline::RequestTimeout;
use super::module::module;
use super::query::parse_query;
use super::shared_socket::SharedSocket;
use super::{bayeux, cors, events, long_poll, parameter_names, session_request, upgrade_response};
use crate::admission::{Handshake, OpenConnection, RefusalReason};
use crate::client::{AdmitRequest, Caller, check_tokens_agree};
use crate::connection::TcpSocket;
use crate::connection::transport::websocket::{self, Upgrade, Upgraded};
use crate::connection::transport::{poll, sse};
use crate::http::request::{normalize, parameter};
use crate::http::{ApiError, ApiErrorCode, Reply};

/// A connection without a session: before its first session, or between polls.
#[derive(Clone)]
pub(super) struct SessionlessConnection<'a> {
    pub(super) context: &'a Arc<Context>,
    /// Address of the client. Behind a proxy, the proxy's address until the client's is known.
    pub(super) address: IpAddr,
    pub(super) handshake: &'a Handshake,
    pub(super) open_connection: OpenConnection,
    pub(super) timeout: &'a RequestTimeout,
}

/// Purpose for which a request takes over its socket.
pub(super) enum SocketTakeover {
    WebSocket(Upgrade<Json>),
    Events(sse::Accepted),
    Poll(poll::Accepted),
}

/// Outcome of a request.
pub(super) enum RequestOutcome {
    Reply(Reply),
    /// The request takes over its socket. The entry counts the client's connection.
    Taken(SocketTakeover, OpenConnection),
}

/// Answer to a request.
#[expect(clippy::large_enum_variant, reason = "a box would be allocated for every request")]
pub(super) enum Answer<'a> {
    Now(RequestOutcome),
    Later(BoxFuture<'a, RequestOutcome>),
}

impl From<Reply> for Answer<'_> {
    fn from(reply: Reply) -> Self {
        Self::Now(RequestOutcome::Reply(reply))
    }
}

impl From<ApiError> for Answer<'_> {
    fn from(error: ApiError) -> Self {
        Reply::from(error).into()
    }
}

/// Returns the outcome of a request that takes over its socket if it is accepted.
fn outcome(accepted: Result<SocketTakeover, Box<Reply>>, open_connection: OpenConnection) -> RequestOutcome {
    match accepted {
        Ok(takeover) => RequestOutcome::Taken(takeover, open_connection),
        Err(reply) => RequestOutcome::Reply(*reply),
    }
}

/// A request, its client and its connection.
pub(super) struct Arrived {
    pub(super) request: Request<Incoming>,
    pub(super) caller: Caller,
    /// Whether another request may follow on the connection.
    keeps_alive: bool,
    peer: SharedSocket<TcpSocket>,
    open_connection: OpenConnection,
}

impl Arrived {
    /// Whether the client has ended the connection.
    pub(super) fn has_disconnected(&self) -> bool {
        self.peer.has_disconnected()
    }
}

impl<'a> SessionlessConnection<'a> {
    /// Answers a request that arrived on this socket. `keeps_alive` is whether another request may follow.
    pub(super) fn answer(
        &self,
        mut request: Request<Incoming>,
        keeps_alive: bool,
        peer: SharedSocket<TcpSocket>,
    ) -> Answer<'a> {
        let normalized = normalize(&mut request);
        let address = self.context.proxies.client_address(self.address, request.headers());
        let auth = &self.context.client.access.auth;
        let caller = Caller::from_request(&request, address, auth).with_arrival(self.timeout.arrival());
        let origin = request.headers().get(ORIGIN).filter(|_| caller.origin.is_ok()).cloned();
        let allowed = normalized.and_then(|()| self.admit(address, request.headers()));
        let answer = match allowed {
            Ok(open_connection) => {
                self.serve_admitted(Arrived { request, caller, keeps_alive, peer, open_connection })
            }
            Err(error) => error.into(),
        };
        match answer {
            // Pages may also read why a request is refused.
            Answer::Now(RequestOutcome::Reply(reply)) => cors::allow_origin(reply, origin.as_ref()).into(),
            answer => answer,
        }
    }

    /// Checks the client's address and the request's host. Returns the entry that counts the connection.
    fn admit(&self, address: IpAddr, headers: &HeaderMap) -> Result<OpenConnection, ApiError> {
        let open_connection = self.entry_for(address).map_err(|error| {
            self.context.report_refusal(&error, address);
            let message = format!("too many connections from one address ({error})");
            ApiError::new(ApiErrorCode::Overloaded, message)
        })?;
        let context = &self.context.client;
        let auth = &context.access.auth;
        if let Err(error) = auth.hosts.allow(headers, auth.needs_token()) {
            context.limits.refusals.record(RefusalReason::Host, address, &error);
            return Err(error.into());
        }
        Ok(open_connection)
    }

    fn serve_admitted(&self, arrived: Arrived) -> Answer<'a> {
        let context = &self.context.client;
        let Arrived { request, caller, .. } = &arrived;
        // Check parameter names and tokens before the backend is called, and before an upgrade.
        if (request.uri().query().is_some() || caller.bearer.is_some())
            && let Err(error) =
                parameter_names::check(request, self.context.bayeux.serves(request.uri().path()))
                    .and_then(|()| check_tokens_agree(request))
        {
            return context.report_refusal(RefusalReason::Query, error, caller).into();
        }
        if context.shared_sessions.is_some() && session_request::uses_session(request) {
            return self.claim_first(arrived);
        }
        self.authenticate_or_route(arrived)
    }

    pub(super) fn authenticate_or_route(&self, arrived: Arrived) -> Answer<'a> {
        let context = &self.context.client;
        if context.access.may_need_async_auth()
            && !arrived.caller.is_decided()
            && let Some(wanted) = session_request::read(&arrived.request, &context.settings)
            && context.needs_async_auth(&arrived.caller, wanted.token.as_deref())
        {
            return self.authenticate_first(arrived, wanted);
        }
        self.route(arrived)
    }

    /// Handles a request that may open a session: calls the backend to authenticate the client, then routes
    /// the request.
    fn authenticate_first(&self, arrived: Arrived, wanted: AdmitRequest) -> Answer<'a> {
        let this = self.clone();
        Answer::Later(Box::pin(async move {
            let client = (&arrived.caller, arrived.request.headers());
            let decision = {
                let _answering = this.timeout.answering();
                this.context.client.authenticate(client, &wanted).await
            };
            let caller = arrived.caller.with_decision(Some(decision));
            match this.route(Arrived { caller, ..arrived }) {
                Answer::Now(outcome) => outcome,
                Answer::Later(outcome) => outcome.await,
            }
        }))
    }

    fn route(&self, arrived: Arrived) -> Answer<'a> {
        let context = &self.context.client;
        let Arrived { request, caller, peer, .. } = &arrived;
        if self.context.bayeux.serves(request.uri().path()) {
            if request.method() == Method::GET && request.headers().contains_key(UPGRADE) {
                return self.upgrade_bayeux(arrived).into();
            }
            return self.bayeux(arrived);
        }
        let has_ended = || peer.has_disconnected();
        let reply = match (request.uri().path(), request.method()) {
            ("/ws", &Method::GET) => return self.upgrade(arrived),
            ("/events", &Method::GET) => {
                let accepted = events::accept(request, caller, context, has_ended);
                return Answer::Now(outcome(accepted.map(SocketTakeover::Events), arrived.open_connection));
            }
            ("/poll", &Method::GET) => {
                let accepted = long_poll::accept(request, caller, context, has_ended);
                return Answer::Now(outcome(accepted.map(SocketTakeover::Poll), arrived.open_connection));
            }
            ("/poll", &Method::POST) => return self.command(arrived),
            ("/encke.js", &Method::GET | &Method::HEAD) => module(request.headers()),
            ("/events", &Method::OPTIONS) => {
                // `EventSource` sends no preflight; a polyfill or `fetch` must.
                let headers = "authorization, cache-control, last-event-id";
                cors::preflight(caller, request.headers(), "GET", headers)
            }
            ("/poll", &Method::OPTIONS) => {
                cors::preflight(caller, request.headers(), "GET, POST", "authorization, content-type")
            }
            ("/ws", _) => ApiError::method_not_allowed("GET").into(),
            ("/encke.js", _) => ApiError::method_not_allowed("GET, HEAD").into(),
            ("/events", _) => ApiError::method_not_allowed("GET, OPTIONS").into(),
            ("/poll", _) => ApiError::method_not_allowed("GET, POST, OPTIONS").into(),
            (path, _) => {
                let message = format!(
                    "no such path: {path}; clients connect to /ws (WebSocket), /events (server-sent events), \
                     /poll (long-polling) or bayeux.path, and import /encke.js"
                );
                ApiError::not_found(message).into()
            }
        };
        reply.into()
    }

    /// Returns the entry that counts this client's connection. A proxy may send requests from many clients on
    /// one connection.
    fn entry_for(&self, client: IpAddr) -> Result<OpenConnection, NotServed> {
        let entry = if client == self.address {
            Ok(self.open_connection.clone())
        } else {
            self.context.permit(client).map(|permit| self.context.connections.enter(permit))
        };
        // After the permit, for which this connection must not be evicted.
        if self.context.proxies.forwarded.is_some() {
            self.handshake.set_address(client);
        }
        entry
    }

    /// Executes commands.
    fn command(&self, Arrived { request, caller, .. }: Arrived) -> Answer<'a> {
        let (context, timeout) = (self.context, self.timeout);
        match long_poll::session(&request, &caller, &context.client) {
            Ok(session) => {
                timeout.renew(context);
                let reply = long_poll::command(request, session, caller, timeout, context);
                Answer::Later(reply.map(RequestOutcome::Reply).boxed())
            }
            Err(reply) => (*reply).into(),
        }
    }

    fn bayeux(&self, Arrived { request, caller, peer, open_connection, .. }: Arrived) -> Answer<'a> {
        let (context, timeout) = (self.context, self.timeout);
        match bayeux::read_head(request, caller, context) {
            Err(reply) => (*reply).into(),
            Ok(bayeux_request) => Answer::Later(Box::pin(async move {
                let (has_session, has_ended) = (|| timeout.renew(context), || peer.has_disconnected());
                let accepted = bayeux_request.answer(context, has_session, has_ended).await;
                outcome(accepted.map(SocketTakeover::Poll), open_connection)
            })),
        }
    }

    fn upgrade_bayeux(&self, Arrived { mut request, caller, open_connection, .. }: Arrived) -> Reply {
        // Refuse before the upgrade: CometD and Faye clients then fall back to long-polling, where they get
        // the same refusal.
        if let Err(error) = self.context.client.check_origin(&caller) {
            return error.into();
        }
        let (reply, upgraded) = upgrade_by_hyper(&mut request);
        if let Some(upgraded) = upgraded {
            let query_token = parameter(request.uri(), "token").map(Cow::into_owned);
            let has_connect_hook = self.context.client.access.has_connect_hook();
            let headers = if has_connect_hook { request.headers().clone() } else { HeaderMap::new() };
            let requester = Requester { caller, query_token, headers };
            let upgrade = SocketUpgrade { requester, _open_connection: open_connection };
            tokio::spawn(bayeux::serve_socket(upgrade, upgraded, Arc::clone(self.context)));
        }
        reply
    }

    fn upgrade(&self, arrived: Arrived) -> Answer<'a> {
        let Arrived { mut request, caller, keeps_alive, open_connection, .. } = arrived;
        join_connection_lines(request.headers_mut());
        let wanted = parse_query(request.uri().query().unwrap_or_default());
        let client_entry = open_connection.clone();
        let upgrade = Upgrade { caller, wanted, open_connection, answer: Vec::new() };
        if keeps_alive
            && may_be_taken(&request)
            && let Some(answer) = upgrade_response::head(&request)
        {
            let takeover = SocketTakeover::WebSocket(Upgrade { answer, ..upgrade });
            return Answer::Now(RequestOutcome::Taken(takeover, client_entry));
        }
        let has_subprotocol = upgrade_response::offers_subprotocol(&request);
        let (mut reply, upgraded) = upgrade_by_hyper(&mut request);
        if let Some(upgraded) = upgraded {
            if has_subprotocol {
                let selected = HeaderValue::from_static(upgrade_response::SUBPROTOCOL);
                reply.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, selected);
            }
            // Spawn a separate task: hyper's task, with its buffers, finishes with the upgrade and is freed.
            tokio::spawn(websocket::serve(upgrade, upgraded, Arc::clone(&self.context.client)));
        }
        reply.into()
    }
}

/// Returns the response to a WebSocket upgrade. If the upgrade is valid, also returns the future socket.
fn upgrade_by_hyper(
    request: &mut Request<Incoming>,
) -> (Reply, Option<impl Future<Output = Option<Upgraded<TcpSocket>>> + use<>>) {
    join_connection_lines(request.headers_mut());
    let reply = switching_protocols(request);
    let is_upgrade = reply.status() == StatusCode::SWITCHING_PROTOCOLS;
    (reply, is_upgrade.then(|| take_socket(hyper::upgrade::on(request))))
}

/// Joins several `Connection` lines, which form one list (RFC 9110, section 5.3), into one. A proxy may add
/// its own line, and tungstenite reads only the first. tungstenite also rejects a value that is not text; if
/// there is such a value, all lines stay unchanged.
fn join_connection_lines(headers: &mut HeaderMap) {
    let lines = headers.get_all(CONNECTION);
    if lines.iter().nth(1).is_none() {
        return;
    }
    let lines: Result<Vec<_>, _> = lines.iter().map(HeaderValue::to_str).collect();
    if let Ok(lines) = lines {
        let joined = HeaderValue::try_from(lines.join(", "));
        headers.insert(CONNECTION, joined.expect("valid values joined by a valid separator"));
    }
}

/// Whether the response can be written without hyper if the connection stays open: the request has no body,
/// and does not expect an interim response.
fn may_be_taken(request: &Request<Incoming>) -> bool {
    request.body().is_end_stream() && !request.headers().contains_key(EXPECT)
}

/// Creates the response to a WebSocket upgrade, or the error if the request is not a valid upgrade.
fn switching_protocols(request: &Request<Incoming>) -> Reply {
    let (mut reply, name, value) = match upgrade_response::accept(request) {
        Ok(accept) => {
            let mut reply = Reply::default();
            *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            *reply.version_mut() = request.version();
            reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
            (reply, SEC_WEBSOCKET_ACCEPT, HeaderValue::try_from(accept).expect("base64 is a valid value"))
        }
        Err(error) => {
            let message = format!("not a WebSocket upgrade: {}", tungstenite::Error::from(error));
            let reply = ApiError::new(ApiErrorCode::UpgradeRequired, message).into();
            (reply, SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"))
        }
    };
    reply.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
    reply.headers_mut().insert(name, value);
    reply
}

/// Takes the socket over from hyper, with the bytes that hyper has already read.
async fn take_socket(on_upgrade: OnUpgrade) -> Option<Upgraded<TcpSocket>> {
    let upgraded = match on_upgrade.await {
        Ok(upgraded) => upgraded,
        Err(error) => {
            tracing::debug!(%error, "upgrade failed");
            return None;
        }
    };
    let Ok(parts) = upgraded.downcast::<TokioIo<SharedSocket<TcpSocket>>>() else {
        tracing::error!("connection closed: after an upgrade, hyper returned a socket of an unknown type");
        return None;
    };
    // Copy the bytes, although there are usually none: otherwise, hyper's whole buffer would stay allocated.
    Some(parts.io.into_inner().into_parts(&parts.read_buf))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use hyper::Response;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[test]
    fn socket_of_an_unknown_type_is_closed() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(upgrade_of_a_pipe());
    }

    async fn upgrade_of_a_pipe() {
        let (mut client, server) = tokio::io::duplex(1024);
        let request = b"GET / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
        client.write_all(request).await.expect("it fits");
        let taken = Arc::new(parking_lot::Mutex::new(None));
        let service = service_fn(|mut request: Request<Incoming>| {
            *taken.lock() = Some(take_socket(hyper::upgrade::on(&mut request)));
            let mut response = Response::new(String::new());
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            std::future::ready(Ok::<_, Infallible>(response))
        });
        let connection =
            http1::Builder::new().serve_connection(TokioIo::new(server), service).with_upgrades();
        connection.await.expect("an upgrade");
        let taken = taken.lock().take().expect("the request has arrived");
        assert!(taken.await.is_none());
    }
}
