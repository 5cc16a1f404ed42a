//! Requests of clients whose sessions may be on another server.

use hyper::Method;
use hyper::header::HeaderMap;

use super::forwarding::forward;
use super::routing::{Answer, Arrived, RequestOutcome, SessionlessConnection, SocketTakeover};
use super::{events, long_poll, session_request};
use crate::client::{Caller, Services};
use crate::http::{ApiError, ApiErrorCode};
use crate::session::AcquiredSession;

impl<'a> SessionlessConnection<'a> {
    /// Handles a request that uses a session. If another server has the session, it moves here, unless the request
    /// contains only commands and the session has a connection there: the request is then forwarded. Otherwise waits
    /// until this server may serve the client.
    pub(super) fn claim_first(&self, mut arrived: Arrived) -> Answer<'a> {
        let this = self.clone();
        Answer::Later(Box::pin(async move {
            let services = &this.context.client;
            if let Some(token) = session_request::resume_token(&arrived.request) {
                let is_command = arrived.request.method() == Method::POST;
                if arrived.has_disconnected() {
                    // The client may have reached another server since, for example if this one was frozen.
                    let error = ApiError::new(ApiErrorCode::Unavailable, "the client has disconnected");
                    return RequestOutcome::Reply(error.into());
                }
                let seq = session_request::seq(&arrived.request).filter(|_| !is_command);
                let acquired = {
                    let _answering = this.timeout.answering();
                    services.claim_session((&token, seq), !is_command, arrived.caller.address).await
                };
                arrived.caller = match acquired {
                    Ok(AcquiredSession::Here(claimed)) => arrived.caller.with_claim(claimed),
                    Ok(AcquiredSession::OnServer(server)) => {
                        let Arrived { request, caller, .. } = arrived;
                        let sent =
                            forward(request, (server, token), caller, this.timeout, this.context).await;
                        return RequestOutcome::Reply(sent);
                    }
                    Err(code) if is_command => {
                        let message = format!("the session is not available: {}; try again", code.reason());
                        let error = ApiError::new(ApiErrorCode::Unavailable, message);
                        return RequestOutcome::Reply(error.into());
                    }
                    Err(code) => arrived.caller.refused(code),
                };
            }
            // The caller holds the claim until the client is attached.
            let (caller, headers) = (arrived.caller.clone(), arrived.request.headers().clone());
            let outcome = match this.authenticate_or_route(arrived) {
                Answer::Now(outcome) => outcome,
                Answer::Later(outcome) => outcome.await,
            };
            let _answering = this.timeout.answering();
            confirm(outcome, &caller, &headers, services).await
        }))
    }
}

/// Waits until this server may serve the client that has been attached. A WebSocket is attached only once it is upgraded.
async fn confirm(
    outcome: RequestOutcome,
    caller: &Caller,
    headers: &HeaderMap,
    services: &Services,
) -> RequestOutcome {
    let attached = match &outcome {
        RequestOutcome::Taken(SocketTakeover::Events(accepted), _) => &accepted.attached,
        RequestOutcome::Taken(SocketTakeover::Poll(accepted), _) => &accepted.attached,
        RequestOutcome::Taken(SocketTakeover::WebSocket(_), _) | RequestOutcome::Reply(_) => return outcome,
    };
    let Err(refusal) = services.confirm_session(attached, caller.address).await else { return outcome };
    let refused = match outcome {
        RequestOutcome::Taken(SocketTakeover::Events(_), _) => events::refused,
        _ => long_poll::refused,
    };
    RequestOutcome::Reply(*refused(refusal, caller, headers, services))
}
