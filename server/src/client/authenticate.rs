//! Authentication of connecting clients, by their tokens and by the backend.

use std::net::IpAddr;
use std::sync::Arc;

use encke_base::quota::{QuotaOwner, network};
use encke_core::close::CloseCode;
use hyper::HeaderMap;

use super::caller::{AuthDecision, AuthResult};
use super::credentials::Credentials;
use super::{AdmitRequest, Caller, Services};
use crate::admission::RefusalReason;
use crate::auth::{BackendClaims, CredentialsDigest, Identity};
use crate::backend::{Backend, ConnectHookRequest, HookCaller, HookError, HookKind};
use crate::issuer::Issuer;
use crate::session::Transport;

impl Services {
    /// Whether authenticating this client requires a request: to the backend, or to the issuer for a key that
    /// is not yet known.
    pub(crate) fn needs_async_auth(&self, caller: &Caller, token: Option<&str>) -> bool {
        self.access.has_connect_hook() || self.issuer_of_unknown_key(caller, token).is_some()
    }

    /// Returns the issuer if this client's token may be signed with an issuer key that is not yet known.
    fn issuer_of_unknown_key(&self, caller: &Caller, token: Option<&str>) -> Option<&Issuer> {
        let (issuer, token) = (self.access.issuer.as_deref()?, caller.token(token)?);
        (caller.origin.is_ok() && issuer.may_have_key_for(token, &self.access.auth)).then_some(issuer)
    }

    /// Authenticates a client by its token, and then by calling the backend. A client that resumes its
    /// session with the same credentials keeps the identity of the session, unless the identity has expired.
    /// Therefore clients can resume while the backend is down.
    pub(crate) async fn authenticate(
        &self,
        (caller, headers): (&Caller, &HeaderMap),
        request: &AdmitRequest,
    ) -> AuthDecision {
        let token = request.token.as_deref();
        let decide = |identity| AuthDecision { identity, only_resume: false };
        if let Some(issuer) = self.issuer_of_unknown_key(caller, token) {
            issuer.wait_for_refresh().await;
        }
        let resumed = request.session.resume.as_deref().and_then(|resume| self.sessions.find(resume));
        let resumed = resumed.map(|session| session.id().number());
        let own = match self.identify_caller(caller, token, resumed) {
            Ok(own) => own,
            Err(code) => return decide(Err(code)),
        };
        let Some(backend) = self.access.backend_for(HookKind::Connect) else { return decide(Ok(own)) };
        let credentials = Credentials {
            token: caller.token(token).filter(|_| !self.access.auth.needs_token()),
            ..Credentials::in_headers(headers, backend.forwarded_names())
        };
        let digest = credentials.digest();
        if let Some(resume) = &request.session.resume {
            if let Some(identity) = self.identity_to_resume(resume, request.session.seq, &own, digest) {
                return AuthDecision { identity: Ok(identity), only_resume: true };
            }
            if request.session.only_resume && self.sessions.find(resume).is_none() {
                // The client does not want a new session.
                return decide(Ok(own));
            }
        }
        let client = (caller.address, credentials, digest);
        decide(self.call_connect_hook(backend, client, request, own).await)
    }

    async fn call_connect_hook(
        &self,
        backend: &Arc<Backend>,
        (address, credentials, digest): (IpAddr, Credentials<'_>, CredentialsDigest),
        request: &AdmitRequest,
        own: Identity,
    ) -> AuthResult {
        let refused = |code, reason, detail: &str| {
            self.limits.refusals.record(reason, address, detail);
            Err(code)
        };
        if !self.limits.session_rates.has_room(&network(address), self.timeouts.clock().now()) {
            let detail = "limits.sessions_per_second_per_address";
            return refused(CloseCode::Overloaded, RefusalReason::SessionRate, detail);
        }
        let Credentials { token, headers, cookies } = credentials;
        let hook_request = ConnectHookRequest {
            transport: Transport::from(request.session.kind).into(),
            dialect: request.session.dialect.into(),
            address,
            user: own.user(),
            token,
            headers,
            cookies,
        };
        let hook_caller = HookCaller { owner: QuotaOwner::new(own.shared_user(), address), session: None };
        let by_backend = RefusalReason::Backend;
        let (own_identity, timeouts) = (own.clone(), Arc::clone(&self.timeouts));
        let interpret =
            move |claimed: BackendClaims| claimed.identity(own_identity, digest, timeouts.clock().unix_now());
        match backend.call(HookKind::Connect, hook_caller, &hook_request, interpret).await {
            Ok(identity) => Ok(identity),
            Err(error @ HookError::Refused { .. }) => {
                refused(CloseCode::Unauthorized, by_backend, &error.to_string())
            }
            Err(error @ HookError::Overloaded) => {
                refused(CloseCode::Overloaded, by_backend, &error.to_string())
            }
            Err(HookError::Invalid { problem }) => {
                let detail = format!("the backend's answer is not valid: {problem}");
                refused(CloseCode::BackendFailed, by_backend, &detail)
            }
            Err(error) => refused(CloseCode::BackendFailed, by_backend, &error.to_string()),
        }
    }

    /// Returns the identity of the session of this resume token, if the session exists and the identity has
    /// not expired. If tokens are required, the request's token must name the same user. Otherwise, the backend must
    /// have seen the same credentials: different ones may belong to another user of the same browser.
    fn identity_to_resume(
        &self,
        resume: &str,
        seq: Option<u64>,
        own: &Identity,
        credentials: CredentialsDigest,
    ) -> Option<Identity> {
        let session = self.sessions.find(resume)?;
        // A client that reports a `seq` that was never sent would get another session.
        if seq.is_some_and(|seq| !session.may_have_sent(seq)) {
            return None;
        }
        let identity = session.identity();
        let now = self.timeouts.clock().unix_now();
        let holds = identity.expires().is_none_or(|expires| expires > now);
        let is_same_client = match self.access.auth.needs_token() {
            true => identity.is_same_user(own),
            false => identity.credentials() == Some(credentials),
        };
        (holds && is_same_client).then_some(identity)
    }
}
