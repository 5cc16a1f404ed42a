//! Requests of clients whose sessions may be on another server.

use encke_broker::engine::RecordUser;
use encke_core::close::CloseCode;
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
            if let Some(wanted) = WantedSession::of(&arrived, services) {
                if arrived.has_disconnected() {
                    // The client may have reached another server since, for example if this one was frozen.
                    let error = ApiError::new(ApiErrorCode::Unavailable, "the client has disconnected");
                    return RequestOutcome::Reply(error.into());
                }
                let WantedSession { token, seq, user, is_command } = wanted;
                let acquired = match user {
                    Ok(user) => {
                        let _answering = this.timeout.answering();
                        let client = (user, arrived.caller.address);
                        services.claim_session((&token, seq), !is_command, client).await
                    }
                    Err(code) => Err(code),
                };
                arrived.caller = match acquired {
                    Ok(AcquiredSession::Here(claimed)) => arrived.caller.with_session(claimed),
                    Ok(AcquiredSession::Unknown) => arrived.caller,
                    Ok(AcquiredSession::OnServer(server)) => {
                        let Arrived { request, caller, .. } = arrived;
                        let sent =
                            forward(request, (server, token), caller, this.timeout, this.context).await;
                        return RequestOutcome::Reply(sent);
                    }
                    Err(code) if is_command => return RequestOutcome::Reply(not_available(code).into()),
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

/// The existing session that a request uses.
struct WantedSession {
    /// Resume token.
    token: String,
    /// Last seq that the client has received, if it reports one.
    seq: Option<u64>,
    /// User of the client, or the close code that refuses it. Not known if asking another service may be necessary, or if
    /// the session's server identifies the client.
    user: Result<RecordUser, CloseCode>,
    /// Whether the request contains only commands.
    is_command: bool,
}

impl WantedSession {
    /// Returns `None` if the request uses no existing session or is refused anyway.
    fn of(arrived: &Arrived, services: &Services) -> Option<Self> {
        let Arrived { request, caller, .. } = arrived;
        let token = session_request::resume_token(request).filter(|_| caller.origin.is_ok())?;
        let is_command = request.method() == Method::POST;
        if is_command {
            return Some(Self { token, seq: None, user: Ok(RecordUser::Unknown), is_command });
        }
        let client_token = session_request::read(request, &services.settings)?.token;
        let client_token = client_token.as_deref();
        let user = match services.needs_async_auth(caller, client_token) {
            true => Ok(RecordUser::Unknown),
            false => services
                .identify_caller(caller, client_token, None)
                .map(|identity| RecordUser::Known(identity.user().map(ToOwned::to_owned))),
        };
        Some(Self { token, seq: session_request::seq(request), user, is_command })
    }
}

/// Returns the error for commands whose session was refused with this code.
pub(super) fn not_available(code: CloseCode) -> ApiError {
    if !code.allows_reconnect() {
        return long_poll::gone();
    }
    let message = format!("the session is not available: {}; try again", code.reason());
    ApiError::new(ApiErrorCode::Unavailable, message)
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
