//! Requests that concern sessions of several servers, if the servers share their sessions.

use std::sync::{Arc, Weak};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use hyper::{Method, StatusCode};
use minicbor::{Decode, Encode};
use serde_json::Value;

use super::call::ApiCall;
use super::routes::{self, Route};
use crate::admin::Context;
use crate::auth::Operator;
use crate::http::{ApiError, ApiErrorCode, ForwardedReply, Reply, reply};
use crate::session::{ForwardedRequests, RequestKind, SharedSessions};

/// The servers whose sessions a request concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Here,
    /// The server that has the session.
    SessionOwner,
    /// All servers, each of which carries out the request. The response contains the total number of sessions.
    All,
}

/// A request that another server has authorized.
#[derive(Clone, Debug, Encode, Decode)]
#[cbor(map)]
struct ForwardedCall {
    #[n(0)]
    method: String,
    #[n(1)]
    path: String,
    #[n(2)]
    query: String,
    #[cbor(n(3), with = "minicbor::bytes")]
    body: Vec<u8>,
}

/// A request to be sent to the other servers.
pub(super) struct OtherServers {
    reach: Reach,
    shared: Arc<SharedSessions>,
    call: ForwardedCall,
}

impl OtherServers {
    /// Returns `None` if the request concerns only this server.
    pub(super) fn of(route: &Route, call: &ApiCall) -> Option<Self> {
        let reach = route.reach();
        let shared = call.context.client.shared_sessions.clone().filter(|_| reach != Reach::Here)?;
        let call = ForwardedCall {
            method: route.method().to_string(),
            path: route.path_with(&call.parameter),
            query: call.query.clone(),
            body: call.body.to_vec(),
        };
        Some(Self { reach, shared, call })
    }

    /// Combines the response of this server with those of the others.
    pub(super) async fn combine(self, own: Result<Reply, ApiError>) -> Result<Reply, ApiError> {
        match (self.reach, own) {
            (Reach::SessionOwner, Err(error)) if error.is_not_found() => {
                let replies = self.ask().await;
                let is_certain = replies.iter().all(Option::is_some);
                let found =
                    replies.into_iter().flatten().find(|reply| reply.status() != StatusCode::NOT_FOUND);
                let missing = || if is_certain { error } else { not_answered() };
                found.map(Reply::from).ok_or_else(missing)
            }
            (Reach::All, Ok(own)) => {
                let mut total = value_of(&ForwardedReply::of(own).await);
                for reply in self.ask().await {
                    let Some(reply) = reply.filter(|reply| reply.status() == StatusCode::OK) else {
                        return Err(not_answered());
                    };
                    add(&mut total, value_of(&reply));
                }
                Ok(reply::json(&total))
            }
            (_, own) => own,
        }
    }

    /// Sends the request to all other servers. `None` for a server that has not answered in time.
    async fn ask(&self) -> Vec<Option<ForwardedReply>> {
        let request = minicbor::to_vec(&self.call).expect("a request can be encoded into memory");
        let servers = self.shared.other_servers();
        let replies = servers.iter().map(async |server| {
            let reply = self.shared.forward(server, RequestKind::Api, &request).await.ok()?;
            ForwardedReply::decode(&reply)
        });
        join_all(replies).await
    }
}

fn not_answered() -> ApiError {
    ApiError::new(ApiErrorCode::OutcomeUnknown, "a server did not carry out the request; repeat it")
}

fn value_of(reply: &ForwardedReply) -> Value {
    serde_json::from_slice(reply.body()).unwrap_or_default()
}

/// Adds the number of sessions. The position of a message is that of the first server with sessions.
fn add(total: &mut Value, other: Value) {
    let sessions = |value: &Value| value["sessions"].as_u64().unwrap_or_default();
    let sum = sessions(total) + sessions(&other);
    if sessions(total) == 0 {
        *total = other;
    }
    total["sessions"] = sum.into();
}

/// Carries out the requests that other servers forward.
struct ApiHandler(Weak<Context>);

/// Lets other servers forward requests to this one.
pub(crate) fn accept_forwarded(context: &Arc<Context>) {
    if let Some(shared) = &context.client.shared_sessions {
        shared.set_request_handler(RequestKind::Api, Box::new(ApiHandler(Arc::downgrade(context))));
    }
}

impl ForwardedRequests for ApiHandler {
    fn answer(&self, request: Vec<u8>) -> BoxFuture<'static, Vec<u8>> {
        let context = self.0.upgrade();
        async move {
            let answered = match context {
                Some(context) => carry_out(&request, context).await,
                None => Err(ApiError::new(ApiErrorCode::Draining, "the server is shutting down")),
            };
            ForwardedReply::of(answered.unwrap_or_else(Reply::from)).await.encode()
        }
        .boxed()
    }
}

async fn carry_out(request: &[u8], context: Arc<Context>) -> Result<Reply, ApiError> {
    let malformed = || ApiError::bad_request("the forwarded request is malformed");
    let ForwardedCall { method, path, query, body } = minicbor::decode(request).map_err(|_| malformed())?;
    let method = method.parse::<Method>().map_err(|_| malformed())?;
    let segments: Vec<&str> = path.strip_prefix('/').ok_or_else(malformed)?.split('/').collect();
    let (route, parameter) = routes::find(&method, &segments, &path)?;
    if route.reach() == Reach::Here {
        return Err(malformed());
    }
    let call = ApiCall {
        context,
        // The server that received the request has checked the key.
        operator: Operator::Anyone,
        headers: hyper::HeaderMap::new(),
        parameter: parameter.to_owned(),
        query,
        body: body.into(),
        trace: encke_base::trace::RequestTrace::default(),
    };
    route.answer_here(call).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sessions_of_all_servers_are_added() {
        let mut total = json!({"sessions": 0});
        for other in [json!({"sessions": 2, "offset": 7}), json!({"sessions": 3, "offset": 9})] {
            add(&mut total, other);
        }
        assert_eq!(total, json!({"sessions": 5, "offset": 7}));
    }
}
