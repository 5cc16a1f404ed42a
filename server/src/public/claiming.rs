//! Requests of clients whose sessions may be on another server.

use hyper::Method;
use hyper::header::HeaderMap;

use super::routing::{Answer, Arrived, RequestOutcome, SessionlessConnection, SocketTakeover};
use super::{events, long_poll, session_request};
use crate::client::{Caller, Services};
use crate::http::{ApiError, ApiErrorCode};

impl<'a> SessionlessConnection<'a> {
    /// Handles a request that uses a session: moves the session to this server if another server has it, and waits until
    /// this server may serve the client.
    pub(super) fn claim_first(&self, arrived: Arrived) -> Answer<'a> {
        let this = self.clone();
        Answer::Later(Box::pin(async move {
            let services = &this.context.client;
            let arrived = match this.claim(arrived).await {
                Ok(arrived) => arrived,
                Err(error) => return RequestOutcome::Reply(error.into()),
            };
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

    async fn claim(&self, mut arrived: Arrived) -> Result<Arrived, ApiError> {
        let Some(token) = session_request::resume_token(&arrived.request) else { return Ok(arrived) };
        let is_command = arrived.request.method() == Method::POST;
        let _answering = self.timeout.answering();
        let claimed = self.context.client.claim_session(&token, !is_command, arrived.caller.address).await;
        if let (Err(code), true) = (&claimed, is_command) {
            let message = format!("the session is not available here ({}); try again", code.reason());
            return Err(ApiError::new(ApiErrorCode::Unavailable, message));
        }
        arrived.caller = arrived.caller.with_claim(claimed);
        Ok(arrived)
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
