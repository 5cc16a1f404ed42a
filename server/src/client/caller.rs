use std::net::IpAddr;

use encke_core::close::CloseCode;
use hyper::Request;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};

use crate::auth::{Auth, Identity, RefusedOrigin, bearer};
use crate::session::Arrival;

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
            bearer: headers
                .get(AUTHORIZATION)
                .and_then(|value| bearer(value.as_bytes()))
                .map(|token| String::from_utf8_lossy(token).into_owned()),
            origin: auth
                .origins
                .check_request(origin.map(HeaderValue::as_bytes), host, is_unguarded)
                .map_err(Box::new),
            decision: None,
            arrival: Arrival::default(),
        }
    }

    /// Sets the number of the client's request in the order of arrival.
    pub(crate) fn with_arrival(self, arrival: Arrival) -> Self {
        Self { arrival, ..self }
    }

    /// Adds the result of the asynchronous authentication.
    pub(crate) fn with_decision(self, decision: Option<AuthDecision>) -> Self {
        Self { decision, ..self }
    }

    /// Whether the client may only resume its session. If the session has just ended, the client has to
    /// connect again.
    pub(crate) fn can_only_resume(&self) -> bool {
        self.decision.as_ref().is_some_and(|decision| decision.only_resume)
    }

    /// Returns the client's token. The token in the query takes precedence over the token in the header,
    /// which browsers cannot set.
    pub(crate) fn token<'a>(&'a self, in_query: Option<&'a str>) -> Option<&'a str> {
        in_query.or(self.bearer.as_deref())
    }
}

/// Returns the text of a header. A header that is present but not valid text is returned as empty, which
/// matches nothing.
fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}
