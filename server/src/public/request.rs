//! What a request gets, by its path.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, EXPECT, HeaderMap, HeaderValue, SEC_WEBSOCKET_VERSION, UPGRADE};
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;

use super::admit::check_origin;
use super::arrival::{Arrival, Taken};
use super::bayeux::SocketUpgrade;
use super::module::module;
use super::query::parse_query;
use super::wants_session::WantsSession;
use super::{NotServed, bayeux, cors, events, poll, switching};
use crate::admission::{OpenConnection, RefusalReason};
use crate::client::{Caller, Decision};
use crate::http::{ApiError, ApiErrorCode, Lent, Peer, Reply, Rewound};
use crate::transport::TcpSocket;
use crate::transport::websocket::{self, Upgrade, Upgraded};

/// What a request gets.
pub(super) enum Answer<'a> {
    Reply(Reply),
    Later(Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>),
    /// The socket itself.
    Taken(Taken, OpenConnection),
}

/// What comes of a request with a body.
pub(super) enum Outcome {
    Reply(Reply),
    Taken(Taken, OpenConnection),
}

impl<'a> Arrival<'a> {
    /// `peer` has sent the request.
    pub(super) fn answer(&self, request: Request<Incoming>, peer: &Peer<TcpSocket>) -> Answer<'a> {
        let context = &self.context.client;
        let address = self.context.proxies.client_of(self.address, request.headers());
        let open_connection = match self.entered(address) {
            Ok(open_connection) => open_connection,
            Err(error) => {
                self.context.refused(&error, address);
                let message = format!("too many connections from one address ({error})");
                return Answer::Reply(ApiError::new(ApiErrorCode::Overloaded, message).into());
            }
        };
        if let Err(error) = context.auth.hosts.allow(request.headers(), context.auth.needs_token()) {
            context.refusals.refused(RefusalReason::Host, address, error);
            return Answer::Reply(ApiError::from(error).into());
        }
        if context.may_ask_first()
            && let Some(wanted) = WantsSession::read(&request, &context.settings)
        {
            let caller = Caller::of(&request, address, &context.auth);
            if context.asks_first(&caller, wanted.token()) {
                return self.ask_who_comes((caller, wanted), request, peer, open_connection);
            }
        }
        self.route(request, address, peer, open_connection, None)
    }

    /// The request is one that may open a session: it is asked first for whom.
    fn ask_who_comes(
        &self,
        (caller, wanted): (Caller, WantsSession),
        request: Request<Incoming>,
        peer: &Peer<TcpSocket>,
        open_connection: OpenConnection,
    ) -> Answer<'a> {
        let (this, peer) = (self.clone(), peer.clone());
        Answer::Later(Box::pin(async move {
            let context = &this.context.client;
            let decision = context.who_comes(wanted.coming(&caller, request.headers())).await;
            match this.route(request, caller.address, &peer, open_connection, Some(decision)) {
                Answer::Reply(reply) => Outcome::Reply(reply),
                Answer::Taken(taken, open_connection) => Outcome::Taken(taken, open_connection),
                Answer::Later(outcome) => outcome.await,
            }
        }))
    }

    /// What a request gets of a client of whom it may be decided who it is.
    fn route(
        &self,
        request: Request<Incoming>,
        address: IpAddr,
        peer: &Peer<TcpSocket>,
        open_connection: OpenConnection,
        decision: Option<Decision>,
    ) -> Answer<'a> {
        let context = &self.context.client;
        let caller = || Caller::of(&request, address, &context.auth).decided(decision.clone());
        if self.context.bayeux.serves(request.uri().path()) {
            if request.method() == Method::GET && request.headers().contains_key(UPGRADE) {
                return Answer::Reply(self.upgrade_bayeux(request, address, open_connection));
            }
            let caller = caller();
            return self.bayeux(request, caller, peer, open_connection);
        }
        let reply = match (request.uri().path(), request.method()) {
            ("/ws", &Method::GET) => return self.upgrade(request, address, open_connection, decision),
            ("/events", &Method::GET) => {
                match events::accept(&request, &caller(), context, || peer.is_gone()) {
                    Ok(accepted) => return Answer::Taken(Taken::Events(accepted), open_connection),
                    Err(reply) => *reply,
                }
            }
            ("/poll", &Method::GET) => match poll::accept(&request, &caller(), context, || peer.is_gone()) {
                Ok(accepted) => return Answer::Taken(Taken::Poll(accepted), open_connection),
                Err(reply) => *reply,
            },
            ("/poll", &Method::POST) => {
                let caller = caller();
                return self.command(request, caller);
            }
            ("/encke.js", &Method::GET | &Method::HEAD) => module(request.headers()),
            ("/events", &Method::OPTIONS) => {
                // An `EventSource` need not ask; a polyfill or `fetch` must.
                cors::preflight(&caller(), request.headers(), "GET", "last-event-id")
            }
            ("/poll", &Method::OPTIONS) => {
                cors::preflight(&caller(), request.headers(), "GET, POST", "authorization, content-type")
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
        Answer::Reply(reply)
    }

    /// The connection, as that of this client: on one connection, a proxy may send the requests of many.
    fn entered(&self, client: IpAddr) -> Result<OpenConnection, NotServed> {
        if let Some(handshake) = self.handshake
            && self.context.proxies.forwarded.is_some()
        {
            handshake.is_of(client);
        }
        if client == self.address {
            return Ok(self.open_connection.clone());
        }
        Ok(self.context.connections.enter(self.context.permit(client)?))
    }

    /// A client with a session has as long for its next request as a stranger for the first.
    fn command(&self, request: Request<Incoming>, caller: Caller) -> Answer<'a> {
        let client = Arc::clone(&self.context.client);
        let session = match poll::session(&request, &caller, &client) {
            Ok(session) => session,
            Err(reply) => return Answer::Reply(*reply),
        };
        let (context, timeout) = (self.context, self.timeout);
        timeout.renew(context);
        Answer::Later(Box::pin(async move {
            let goes_on = || timeout.renew(context);
            let within = context.handshake_timeout;
            Outcome::Reply(poll::command(request, session, caller, client, (within, goes_on)).await)
        }))
    }

    fn bayeux(
        &self,
        request: Request<Incoming>,
        caller: Caller,
        peer: &Peer<TcpSocket>,
        open_connection: OpenConnection,
    ) -> Answer<'a> {
        let (context, timeout, peer) = (self.context, self.timeout, peer.clone());
        match bayeux::ask(request, caller, context) {
            Err(reply) => Answer::Reply(*reply),
            Ok(asked) => Answer::Later(Box::pin(async move {
                match asked.answer(context, || timeout.renew(context), || peer.is_gone()).await {
                    Ok(accepted) => Outcome::Taken(Taken::Connect(accepted), open_connection),
                    Err(reply) => Outcome::Reply(*reply),
                }
            })),
        }
    }

    fn upgrade_bayeux(
        &self,
        mut request: Request<Incoming>,
        address: IpAddr,
        open_connection: OpenConnection,
    ) -> Reply {
        let caller = Caller::of(&request, address, &self.context.client.auth);
        // Clients of CometD and Faye go on to long-polling, where the same is said again.
        if let Err(error) = check_origin(&caller, &self.context.client) {
            return error.into();
        }
        join_connection_lines(request.headers_mut());
        let reply = switching_protocols(&request);
        if reply.status() == StatusCode::SWITCHING_PROTOCOLS {
            let query_token = token(&request);
            let upgraded = take_socket(hyper::upgrade::on(&mut request));
            let client = &self.context.client;
            let headers = if client.asks_who_comes() { request.headers().clone() } else { HeaderMap::new() };
            let upgrade = SocketUpgrade { caller, query_token, headers, _open_connection: open_connection };
            tokio::spawn(bayeux::serve_socket(upgrade, upgraded, Arc::clone(self.context)));
        }
        reply
    }

    fn upgrade(
        &self,
        mut request: Request<Incoming>,
        address: IpAddr,
        open_connection: OpenConnection,
        decision: Option<Decision>,
    ) -> Answer<'a> {
        join_connection_lines(request.headers_mut());
        let upgrade = |request: &Request<Incoming>, answer| {
            let wanted = parse_query(request.uri().query().unwrap_or_default());
            let caller = Caller::of(request, address, &self.context.client.auth).decided(decision);
            Upgrade { caller, wanted, open_connection: open_connection.clone(), answer }
        };
        if may_be_taken(&request)
            && let Some(answer) = switching::head(&request)
        {
            let taken = Taken::WebSocket(upgrade(&request, answer));
            return Answer::Taken(taken, open_connection);
        }
        let reply = switching_protocols(&request);
        if reply.status() == StatusCode::SWITCHING_PROTOCOLS {
            let upgrade = upgrade(&request, Vec::new());
            let upgraded = take_socket(hyper::upgrade::on(&mut request));
            // A task of its own: hyper's, with its buffers, ends with the upgrade and is freed.
            tokio::spawn(websocket::serve(upgrade, upgraded, Arc::clone(&self.context.client)));
        }
        Answer::Reply(reply)
    }
}

/// Makes one line of several `Connection` lines, which are one list (RFC 9110, section 5.3): a proxy may add its own, and of several lines
/// tungstenite reads the first. It reads none that is not text: where one is not, all stay as they are.
fn join_connection_lines(headers: &mut HeaderMap) {
    let lines = headers.get_all(CONNECTION);
    if lines.iter().nth(1).is_none() {
        return;
    }
    let lines: Result<Vec<_>, _> = lines.iter().map(HeaderValue::to_str).collect();
    if let Ok(lines) = lines {
        let joined = HeaderValue::try_from(lines.join(", "));
        headers.insert(CONNECTION, joined.expect("text of values, joined by what a value may have"));
    }
}

/// Whether hyper would do no more for the answer than to write it: there is nothing to be said of a body or of the connection's end.
fn may_be_taken(request: &Request<Incoming>) -> bool {
    let headers = request.headers();
    let closes = |connection: &HeaderValue| {
        let mut options = connection.as_bytes().split(|byte| *byte == b',');
        options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
    };
    request.body().is_end_stream()
        && !headers.contains_key(EXPECT)
        && !headers.get_all(CONNECTION).iter().any(closes)
}

/// The JWT of the query.
fn token<B>(request: &Request<B>) -> Option<String> {
    let mut query = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
    query.find(|(name, _)| name == "token").map(|(_, token)| token.into_owned())
}

/// The answer to a WebSocket upgrade, or why it is none.
fn switching_protocols(request: &Request<Incoming>) -> Reply {
    create_response_with_body(request, Default::default).unwrap_or_else(|error| {
        let mut reply = Reply::from(ApiError::new(
            ApiErrorCode::UpgradeRequired,
            format!("not a WebSocket upgrade: {error}"),
        ));
        reply.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
        reply.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        reply
    })
}

/// Takes the socket over from hyper, with what hyper has read already.
async fn take_socket(on_upgrade: OnUpgrade) -> Option<Upgraded<TcpSocket>> {
    let upgraded = match on_upgrade.await {
        Ok(upgraded) => upgraded,
        Err(error) => {
            tracing::debug!(%error, "the upgrade failed");
            return None;
        }
    };
    let parts = upgraded
        .downcast::<TokioIo<Rewound<Lent<TcpSocket>>>>()
        .expect("hyper was given a lent TcpSocket in a Rewound in a TokioIo");
    // A copy, though it is usually empty: tungstenite would go on using the memory, which is hyper's whole buffer.
    let (socket, read_already) = parts.io.into_inner().into_parts(&parts.read_buf);
    Some((socket.into_inner(), read_already))
}
