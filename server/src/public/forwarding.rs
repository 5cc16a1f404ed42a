//! Commands of clients whose sessions have connections to other servers: each request is forwarded to the session's
//! server, which carries it out.

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::Request;
use hyper::body::Incoming;
use minicbor::{Decode, Encode};

use super::context::Context;
use super::deadline::RequestTimeout;
use super::long_poll;
use super::receive::read;
use crate::client::{Caller, Services};
use crate::http::body::{self, BodyLimits};
use crate::http::request::parameter;
use crate::http::{ApiError, ApiErrorCode, ForwardedReply, Reply};
use crate::session::{ForwardedRequests, RequestKind};

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
        let payload = minicbor::to_vec(&commands).expect("commands can be encoded into memory");
        let reply = match &services.shared_sessions {
            Some(shared) => shared.forward(&server, RequestKind::Commands, &payload).await,
            None => None,
        };
        let reply = reply.as_deref().and_then(ForwardedReply::decode);
        let message = "the server of the session did not answer; the commands may have been carried out";
        reply.ok_or_else(|| ApiError::new(ApiErrorCode::OutcomeUnknown, message))
    };
    let reply = match forwarding.await {
        Ok(reply) => reply.into(),
        Err(error) => error.into(),
    };
    long_poll::finish(reply, &caller, &head.headers)
}

impl ForwardedRequests for CommandHandler {
    fn answer(&self, request: Vec<u8>) -> BoxFuture<'static, Vec<u8>> {
        let services = self.0.upgrade();
        async move {
            let reply = match services {
                Some(services) => carry_out(&request, &services).await,
                None => ApiError::new(ApiErrorCode::Draining, "the server is shutting down").into(),
            };
            ForwardedReply::of(reply).await.encode()
        }
        .boxed()
    }
}

async fn carry_out(request: &[u8], services: &Arc<Services>) -> Reply {
    let decoded = minicbor::decode::<ForwardedCommands>(request).ok();
    let address = decoded.as_ref().and_then(|commands| commands.address.parse::<IpAddr>().ok());
    let (Some(ForwardedCommands { session, token, body, .. }), Some(address)) = (decoded, address) else {
        return ApiError::bad_request("the forwarded request is malformed").into();
    };
    let caller = Caller::forwarded(address, token);
    long_poll::forwarded(&session, &body, &caller, services).await
}
