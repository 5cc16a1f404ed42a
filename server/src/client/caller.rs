use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use encke_core::close::CloseCode;
use hyper::Request;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};

use crate::auth::{Auth, Identity, RefusedOrigin, bearer};
use crate::http::ApiError;
use crate::http::request::parameters;
use crate::session::{Arrival, ClaimedSession};

/// The parts of a request that concern its client, apart from the query.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) address: IpAddr,
    /// The token in `Authorization: Bearer`.
    pub(crate) bearer: Option<String>,
    /// Error if the client is a web page whose origin may not connect. Boxed, because it is rare.
    pub(crate) origin: Result<(), Box<RefusedOrigin>>,
    /// Result of the asynchronous authentication, if there was one.
    pub(super) decision: Option<AuthDecision>,
    pub(crate) arrival: Arrival,
    /// Whether the session of the client was on this server when the request arrived. Another server may take it since.
    pub(crate) has_session: bool,
    /// Session that was claimed for the client. It waits for the client as long as this exists.
    _claimed: Option<Arc<ClaimedSession>>,
}

/// The client's identity, or the close code that refuses it.
pub(crate) type AuthResult = Result<Identity, CloseCode>;

/// Result of authenticating a client, before it requests a session.
#[derive(Clone, Debug)]
pub(crate) struct AuthDecision {
    pub(crate) identity: AuthResult,
    /// Whether the identity was taken from the session that the client resumes, and is therefore valid only
    /// for that session.
    pub(crate) only_resume: bool,
}

impl Caller {
    pub(crate) fn from_request<B>(request: &Request<B>, address: IpAddr, auth: &Auth) -> Self {
        let headers = request.headers();
        let (origin, host) = (headers.get(ORIGIN), text(headers, HOST));
        // In a local request without a token, only the origin distinguishes a web page from a program, since
        // programs send none. The page may have reached the server by DNS rebinding, unless the `Host` is one
        // of this server's names.
        let is_unguarded = origin.is_some()
            && address.is_loopback()
            && !auth.needs_token()
            && !host.is_some_and(|host| auth.hosts.contains(host));
        Self {
            address,
            bearer: bearer_tokens(headers).next().map(Cow::into_owned),
            origin: auth
                .origins
                .check_request(origin.map(HeaderValue::as_bytes), host, is_unguarded)
                .map_err(Box::new),
            decision: None,
            arrival: Arrival::default(),
            has_session: false,
            _claimed: None,
        }
    }

    /// Sets the arrival of the client's request.
    pub(crate) fn with_arrival(self, arrival: Arrival) -> Self {
        Self { arrival, ..self }
    }

    /// Adds the result of the asynchronous authentication.
    pub(crate) fn with_decision(self, decision: Option<AuthDecision>) -> Self {
        Self { decision, ..self }
    }

    /// Returns the caller of a request that another server has forwarded, after checking its origin.
    pub(crate) fn forwarded(address: IpAddr, token: Option<String>) -> Self {
        Self {
            address,
            bearer: token,
            origin: Ok(()),
            decision: None,
            arrival: Arrival::default(),
            has_session: false,
            _claimed: None,
        }
    }

    /// Records that this server has the session, which may have been claimed for the client.
    pub(crate) fn with_session(self, claimed: Option<ClaimedSession>) -> Self {
        Self { has_session: true, _claimed: claimed.map(Arc::new), ..self }
    }

    /// Refuses a client whose session is not available.
    pub(crate) fn refused(self, code: CloseCode) -> Self {
        self.with_decision(Some(AuthDecision { identity: Err(code), only_resume: false }))
    }

    /// Whether an asynchronous step has already identified or refused the client.
    pub(crate) fn is_decided(&self) -> bool {
        self.decision.is_some()
    }

    /// Whether the client may only resume its session. If the session has just ended, the client has to
    /// connect again.
    pub(crate) fn can_only_resume(&self) -> bool {
        self.decision.as_ref().is_some_and(|decision| decision.only_resume)
    }

    /// Returns the client's token: the one in the query or in a message, or else the one in the header.
    pub(crate) fn token<'a>(&'a self, in_query: Option<&'a str>) -> Option<&'a str> {
        in_query.or(self.bearer.as_deref())
    }
}

/// Checks that all tokens in the head of a request are the same. Otherwise, a valid token would hide an invalid
/// one.
///
/// # Errors
/// The tokens differ.
pub(crate) fn check_tokens_agree<B>(request: &Request<B>) -> Result<(), ApiError> {
    let in_query = parameters(request.uri()).filter(|(name, _)| name == "token").map(|(_, token)| token);
    let mut tokens = in_query.chain(bearer_tokens(request.headers()));
    let first = tokens.next();
    if tokens.all(|token| Some(token) == first) {
        return Ok(());
    }
    Err(ApiError::bad_request(
        "the request contains different tokens (parameter `token`, header `Authorization: Bearer`); send only one",
    ))
}

/// Returns the tokens in `Authorization: Bearer`. A proxy may add a line with another scheme.
fn bearer_tokens(headers: &HeaderMap) -> impl Iterator<Item = Cow<'_, str>> {
    let lines = headers.get_all(AUTHORIZATION).into_iter();
    lines.filter_map(|line| bearer(line.as_bytes())).map(String::from_utf8_lossy)
}

/// Returns the text of a header. A header that is present but not valid text is returned as empty, which
/// matches nothing.
fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_one_token() {
        for (query, headers, is_accepted) in [
            ("", &[][..], true),
            ("token=a", &[], true),
            ("", &["Bearer a"], true),
            ("token=a", &["bearer  a"], true),
            ("token=a%2Eb", &["Bearer a.b"], true),
            ("token=a", &["Basic dTpw"], true),
            ("token=a", &["Basic dTpw", "Bearer a"], true),
            ("token=a", &["Bearer b"], false),
            ("token=a", &["Basic dTpw", "Bearer b"], false),
            ("token=", &["Bearer a"], false),
            ("token=a&token=b", &[], false),
            ("", &["Bearer a", "Bearer b"], false),
            ("token=a", &["Bearer a\u{fffd}"], false),
        ] {
            let request = Request::get(format!("/ws?{query}"));
            let request = headers.iter().fold(request, |request, line| request.header(AUTHORIZATION, *line));
            let request = request.body(()).expect("a request");
            assert_eq!(check_tokens_agree(&request).is_ok(), is_accepted, "{query} {headers:?}");
        }
    }
}
