//! Authentication of connecting clients, by their tokens and by the backend.

use std::borrow::Cow;
use std::collections::BTreeMap;

use encke_base::quota::{QuotaOwner, network};
use encke_core::close::CloseCode;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use super::caller::{AuthDecision, AuthResult};
use super::{AdmitRequest, Caller, Services};
use crate::admission::RefusalReason;
use crate::auth::{BackendClaims, Identity};
use crate::backend::{ConnectHookRequest, HookCaller, HookError, HookKind};
use crate::http::request::cookies;
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
    /// session keeps the identity of the session, unless the identity has expired. Therefore clients can
    /// resume while the backend is down.
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
        if !self.access.has_connect_hook() {
            return decide(Ok(own));
        }
        if let Some(resume) = &request.session.resume {
            if let Some(identity) = self.identity_to_resume(resume, request.session.seq, &own) {
                return AuthDecision { identity: Ok(identity), only_resume: true };
            }
            if request.session.only_resume && self.sessions.find(resume).is_none() {
                // The client does not want a new session.
                return decide(Ok(own));
            }
        }
        decide(self.call_connect_hook((caller, headers), request, own).await)
    }

    async fn call_connect_hook(
        &self,
        (caller, headers): (&Caller, &HeaderMap),
        request: &AdmitRequest,
        own: Identity,
    ) -> AuthResult {
        let address = caller.address;
        let refused = |code, reason, detail: &str| {
            self.limits.refusals.record(reason, address, detail);
            Err(code)
        };
        let Some(backend) = self.access.backend_for(HookKind::Connect) else { return Ok(own) };
        if !self.limits.session_rates.has_room(&network(address), self.timeouts.clock().now()) {
            let detail = "limits.sessions_per_second_per_address";
            return refused(CloseCode::Overloaded, RefusalReason::SessionRate, detail);
        }
        let has_keys = self.access.auth.needs_token();
        let (names, cookies) = backend.forwarded_names();
        let hook_request = ConnectHookRequest {
            transport: Transport::from(request.session.kind).into(),
            dialect: request.session.dialect.into(),
            address,
            user: own.user(),
            token: caller.token(request.token.as_deref()).filter(|_| !has_keys),
            headers: names.iter().filter_map(|name| header_line(headers, name)).collect(),
            cookies: find_cookies(headers, cookies),
        };
        let hook_caller = HookCaller { owner: QuotaOwner::new(own.shared_user(), address), session: None };
        let by_backend = RefusalReason::Backend;
        match backend.call::<BackendClaims>(HookKind::Connect, hook_caller, &hook_request).await {
            Ok(claimed) => match claimed.identity(own, self.timeouts.clock().unix_now()) {
                Ok(identity) => Ok(identity),
                Err(error) => {
                    backend.report_invalid(HookKind::Connect, &error.to_string());
                    let detail = format!("the backend's answer is not valid: {error}");
                    refused(CloseCode::BackendFailed, by_backend, &detail)
                }
            },
            Err(error @ HookError::Refused { .. }) => {
                refused(CloseCode::Unauthorized, by_backend, &error.to_string())
            }
            Err(error @ HookError::Overloaded) => {
                refused(CloseCode::Overloaded, by_backend, &error.to_string())
            }
            Err(error) => refused(CloseCode::BackendFailed, by_backend, &error.to_string()),
        }
    }

    /// Returns the identity of the session of this resume token, if the session exists and the identity has
    /// not expired. If tokens are required, the request's token must name the same user.
    fn identity_to_resume(&self, resume: &str, seq: Option<u64>, own: &Identity) -> Option<Identity> {
        let session = self.sessions.find(resume)?;
        // A client that reports a `seq` that was never sent would get another session.
        if seq.is_some_and(|seq| seq > session.seq()) {
            return None;
        }
        let identity = session.identity();
        let now = self.timeouts.clock().unix_now();
        let holds = identity.expires().is_none_or(|expires| expires > now);
        (holds && (!self.access.auth.needs_token() || identity.is_same_user(own))).then_some(identity)
    }
}

/// Returns all lines of a header, joined as described in RFC 9110, section 5.2. `None` if the header is
/// absent, or a line is not valid text.
fn header_line<'a>(headers: &'a HeaderMap, name: &'a HeaderName) -> Option<(&'a str, Cow<'a, str>)> {
    let lines: Result<Vec<&str>, _> = headers.get_all(name).iter().map(HeaderValue::to_str).collect();
    match &*lines.ok()? {
        [] => None,
        [line] => Some((name.as_str(), Cow::Borrowed(*line))),
        lines => Some((name.as_str(), Cow::Owned(lines.join(", ")))),
    }
}

/// Returns the request's cookies with one of these names. If several have the same name, the first one is
/// used (RFC 6265, section 5.4).
fn find_cookies<'a>(headers: &'a HeaderMap, names: &'a [String]) -> BTreeMap<&'a str, &'a str> {
    let mut found = BTreeMap::new();
    for (name, value) in cookies(headers) {
        if names.iter().any(|wanted| wanted == name) {
            found.entry(name).or_insert(value);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use hyper::header::COOKIE;

    use super::*;

    #[test]
    fn cookies_are_found_by_name() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, "a=1; sid=x=y;b=2".parse().expect("a header"));
        headers.append(COOKIE, "sid=second; c; =d".parse().expect("a header"));
        let names = ["sid", "b", "c", "none"].map(str::to_owned);
        let found: Vec<_> = find_cookies(&headers, &names).into_iter().collect();
        assert_eq!(found, [("b", "2"), ("sid", "x=y")]);
    }
}
