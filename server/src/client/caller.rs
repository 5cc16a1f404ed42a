use std::net::IpAddr;

use encke_core::close::CloseCode;
use hyper::Request;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};

use super::Context;
use super::context::NotIdentified;
use crate::admission::RefusalReason;
use crate::auth::{Auth, AuthError, Identity, bearer};

/// What a request says of its client, besides its query.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) address: IpAddr,
    /// The token of `Authorization: Bearer`.
    bearer: Option<String>,
    /// The client is not a web page, or is a page that may connect.
    pub(crate) origin_allowed: bool,
    /// Who it is, by the backend.
    decision: Option<Decision>,
}

/// Who a client is, or why it gets no session.
pub(crate) type Decided = Result<Identity, CloseCode>;

/// What is known of a client before it asks for its session.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    pub(crate) who: Decided,
    /// It is known from the session that it comes back to, and so for that session alone.
    pub(crate) only_resume: bool,
}

impl Caller {
    pub(crate) fn of<B>(request: &Request<B>, address: IpAddr, auth: &Auth) -> Self {
        let headers = request.headers();
        let (origin, host) = (text(headers, ORIGIN), text(headers, HOST));
        // From this machine and without a token, nothing but the origin distinguishes a page from a program: unless the name by which
        // it comes can be no one else's. Programs send no origin.
        let is_unguarded = origin.is_some()
            && address.is_loopback()
            && !auth.needs_token()
            && !host.is_some_and(|host| auth.hosts.lists(host));
        Self {
            address,
            bearer: headers
                .get(AUTHORIZATION)
                .and_then(|value| bearer(value.as_bytes()))
                .map(|token| String::from_utf8_lossy(token).into_owned()),
            origin_allowed: auth.origins.allows(origin, host, is_unguarded),
            decision: None,
        }
    }

    /// The same, once it is decided who it is.
    pub(crate) fn decided(self, decision: Option<Decision>) -> Self {
        Self { decision, ..self }
    }

    /// Whether it may have no session but the one that it comes back to. If that is just gone, it is to come again.
    pub(crate) fn only_resumes(&self) -> bool {
        self.decision.as_ref().is_some_and(|decision| decision.only_resume)
    }

    /// The token that it came with. One in the query takes precedence over one in the header, which browsers cannot set.
    pub(crate) fn token<'a>(&'a self, in_query: Option<&'a str>) -> Option<&'a str> {
        in_query.or(self.bearer.as_deref())
    }

    /// Whether a header brings a token.
    pub(crate) fn has_token(&self) -> bool {
        self.bearer.is_some()
    }

    /// Who the client is.
    pub(crate) fn identify(&self, token: Option<&str>, context: &Context) -> Decided {
        if let Some(Decision { who, .. }) = &self.decision {
            return who.clone();
        }
        if !self.origin_allowed {
            context.refusals.refused(
                RefusalReason::Origin,
                self.address,
                "the origin is not in auth.origins",
            );
            return Err(CloseCode::Unauthorized);
        }
        context.identify(self.token(token), self.address).map_err(|error| {
            context.refusals.refused(error.reason(), self.address, error);
            match error {
                // The token may be good: its client is to come back.
                NotIdentified::TooManyBadSignatures | NotIdentified::KeysUnknown => CloseCode::Overloaded,
                NotIdentified::BadToken(AuthError::Expired) => CloseCode::TokenExpired,
                NotIdentified::BadToken(_) => CloseCode::Unauthorized,
            }
        })
    }
}

/// A header that is present but not text counts as empty, which equals nothing.
fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}
