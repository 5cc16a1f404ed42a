//! Commands of clients whose sessions have connections to other servers: each request is forwarded to the session's
//! server, which carries it out.

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use encke_broker::engine::RecordUser;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::Request;
use hyper::body::Incoming;
use minicbor::{Decode, Encode};

use super::claiming::not_available;
use super::context::Context;
use super::deadline::RequestTimeout;
use super::long_poll;
use super::receive::read;
use crate::client::{Caller, Services};
use crate::http::body::{self, BodyLimits};
use crate::http::request::parameter;
use crate::http::{ApiError, ApiErrorCode, ForwardedReply, Reply};
use crate::session::{AcquiredSession, ForwardedRequests, NotForwarded, RequestKind};

/// How often commands follow a session to another server before the client has to repeat them.
const MAX_MOVES: usize = 8;

/// Reply of a server that does not have the session. It has carried out nothing.
const NOT_HERE: &[u8] = &[];

/// A `POST /poll` for the server of the session, which identifies the client and carries out the commands.
#[derive(Encode, Decode)]
#[cbor(map)]
struct ForwardedCommands {
    /// Resume token.
    #[n(0)]
    session: String,
    /// JWT.
    #[n(1)]
    token: Option<String>,
    /// Address of the client.
    #[n(2)]
    address: String,
    #[cbor(n(3), with = "minicbor::bytes")]
    body: Vec<u8>,
}

/// Carries out the commands that other servers forward.
struct CommandHandler(Weak<Services>);

/// Lets other servers forward commands to this one.
pub(crate) fn accept_forwarded(services: &Arc<Services>) {
    if let Some(shared) = &services.shared_sessions {
        shared.set_request_handler(RequestKind::Commands, Box::new(CommandHandler(Arc::downgrade(services))));
    }
}

/// Forwards a request with commands to the server that has the client's session.
pub(super) async fn forward(
    request: Request<Incoming>,
    (server, session): (String, String),
    caller: Caller,
    timeout: &RequestTimeout,
    context: &Context,
) -> Reply {
    let (head, body) = request.into_parts();
    let forwarding = async {
        let services = &context.client;
        services.check_origin(&caller)?;
        body::check_json(&head.headers)?;
        let max_bytes = services.settings.max_message;
        let limits = BodyLimits { max_bytes, timeout: context.handshake_timeout };
        let body = read(body, limits, caller.address, services).await?;
        let _answering = timeout.answering();
        let query_token = parameter(&head.uri, "token");
        let token = caller.token(query_token.as_deref()).map(ToOwned::to_owned);
        let commands =
            ForwardedCommands { session, token, address: caller.address.to_string(), body: body.to_vec() };
        follow(&server, commands, services).await
    };
    let reply = forwarding.await.unwrap_or_else(Reply::from);
    long_poll::finish(reply, &caller, &head.headers)
}

/// Has the commands carried out by the server of the session, which may move meanwhile.
async fn follow(
    server: &str,
    commands: ForwardedCommands,
    services: &Arc<Services>,
) -> Result<Reply, ApiError> {
    let Some(shared) = &services.shared_sessions else { return Err(services.moved()) };
    let payload = minicbor::to_vec(&commands).expect("commands can be encoded into memory");
    let mut server = server.to_owned();
    for _ in 0..MAX_MOVES {
        match shared.forward(&server, RequestKind::Commands, &payload).await {
            Ok(reply) if reply == NOT_HERE => {}
            Ok(reply) => return ForwardedReply::decode(&reply).map(Reply::from).ok_or_else(outcome_unknown),
            Err(NotForwarded::NoReply) => return Err(outcome_unknown()),
            Err(NotForwarded::TooMany) => {
                let message = "too many requests are being forwarded to the server of the session; try again";
                return Err(ApiError::new(ApiErrorCode::Overloaded, message));
            }
        }
        let address = commands.address.parse().map_err(|_| malformed())?;
        match services.claim_session((&commands.session, None), false, (RecordUser::Unknown, address)).await {
            Ok(AcquiredSession::OnServer(owner)) => server = owner,
            Ok(AcquiredSession::Here(_claimed)) => {
                if let Some(reply) = carry_out(&commands, services).await? {
                    return Ok(reply);
                }
            }
            Ok(AcquiredSession::Unknown) => return Err(long_poll::gone()),
            Err(code) => return Err(not_available(code)),
        }
    }
    Err(services.moved())
}

impl ForwardedRequests for CommandHandler {
    fn answer(&self, request: Vec<u8>) -> BoxFuture<'static, Vec<u8>> {
        let services = self.0.upgrade();
        async move {
            let Some(services) = services else { return NOT_HERE.to_vec() };
            let reply = match minicbor::decode(&request) {
                Ok(commands) => carry_out(&commands, &services).await,
                Err(_) => Err(malformed()),
            };
            match reply {
                Ok(None) => NOT_HERE.to_vec(),
                Ok(Some(reply)) => ForwardedReply::of(reply).await.encode(),
                Err(error) => ForwardedReply::of(error.into()).await.encode(),
            }
        }
        .boxed()
    }
}

/// Carries out the commands, if the session is on this server.
async fn carry_out(
    commands: &ForwardedCommands,
    services: &Arc<Services>,
) -> Result<Option<Reply>, ApiError> {
    let address = commands.address.parse::<IpAddr>().map_err(|_| malformed())?;
    let caller = Caller::forwarded(address, commands.token.clone());
    Ok(long_poll::forwarded(&commands.session, &commands.body, &caller, services).await)
}

fn outcome_unknown() -> ApiError {
    let message = "the server of the session did not answer; the commands may have been carried out";
    ApiError::new(ApiErrorCode::OutcomeUnknown, message)
}

fn malformed() -> ApiError {
    ApiError::bad_request("the forwarded request is malformed")
}
