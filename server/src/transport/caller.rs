use std::net::IpAddr;

use encke_core::close::CloseCode;
use hyper::Request;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};

use crate::auth::{AuthError, Identity, bearer, unix_now};
use crate::config::Config;

/// Who is at the door: what a request says of its client, besides its query.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) address: IpAddr,
    /// What `Authorization: Bearer` brings.
    bearer: Option<String>,
    /// It is no web page, or one that may connect.
    pub(super) origin_allowed: bool,
}

impl Caller {
    pub(crate) fn of<B>(request: &Request<B>, address: IpAddr, config: &Config) -> Self {
        let headers = request.headers();
        let (origin, host) = (text(headers, ORIGIN), text(headers, HOST));
        Self {
            address,
            bearer: headers
                .get(AUTHORIZATION)
                .and_then(|value| bearer(value.as_bytes()))
                .map(|token| String::from_utf8_lossy(token).into_owned()),
            // From this very machine and without a token: there is nothing but the origin to tell a page by.
            origin_allowed: config.auth.origins.allows(
                origin,
                host,
                address.is_loopback() && !config.auth.needs_token(),
            ),
        }
    }

    /// Who the client is. A token in the query goes before one in the header, which browsers cannot set.
    pub(crate) fn identify(&self, token: Option<&str>, config: &Config) -> Result<Identity, CloseCode> {
        if !self.origin_allowed {
            tracing::debug!("its origin is not in auth.origins");
            return Err(CloseCode::Unauthorized);
        }
        config.auth.identify(token.or(self.bearer.as_deref()), unix_now()).map_err(|error| {
            tracing::debug!(%error, "its token is not good");
            match error {
                AuthError::Expired => CloseCode::TokenExpired,
                _ => CloseCode::Unauthorized,
            }
        })
    }
}

/// What is not text is there all the same, and equal to nothing.
fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}
