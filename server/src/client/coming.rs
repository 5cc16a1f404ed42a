//! Who a client is that comes, by the word of the backend.

use std::collections::BTreeMap;

use encke_core::close::CloseCode;
use encke_core::dialect::DialectName;
use hyper::header::{COOKIE, HeaderMap};

use super::caller::Decided;
use super::{Caller, Context};
use crate::admission::RefusalReason;
use crate::auth::{Identity, RawClaims};
use crate::backend::{Ask, NoAnswer, WhoComes};
use crate::session::Transport;

/// A client that comes.
pub(crate) struct Coming<'a> {
    pub(crate) caller: &'a Caller,
    /// Of its request.
    pub(crate) headers: &'a HeaderMap,
    /// That of its query, or of a message.
    pub(crate) token: Option<&'a str>,
    /// What it comes back with.
    pub(crate) resume: Option<&'a str>,
    pub(crate) transport: Transport,
    pub(crate) dialect: DialectName,
}

impl Context {
    /// Whether the backend says who clients are.
    pub(crate) fn asks_who_comes(&self) -> bool {
        self.backend_for(Ask::Connect).is_some()
    }

    /// Who a client is: by its token, as ever, and then by the backend. A client that comes back to its session is who it was, unless that has
    /// expired: a backend that is down keeps nobody from coming back.
    pub(crate) async fn who_comes(&self, coming: Coming<'_>) -> Decided {
        let own = coming.caller.identify(coming.token, self)?;
        let Some(backend) = self.backend_for(Ask::Connect) else { return Ok(own) };
        if let Some(identity) = coming.resume.and_then(|token| self.known(token, &own)) {
            return Ok(identity);
        }
        let has_keys = self.auth.needs_token();
        let (headers, cookies) = backend.passed_on();
        let question = WhoComes {
            transport: coming.transport.into(),
            dialect: coming.dialect.into(),
            address: coming.caller.address,
            user: own.user(),
            token: coming.caller.token(coming.token).filter(|_| !has_keys),
            headers: headers
                .iter()
                .filter_map(|name| Some((name.as_str(), coming.headers.get(name)?.to_str().ok()?)))
                .collect(),
            cookies: cookies_of(coming.headers, cookies),
        };
        let refused = |code, detail: &str| {
            self.refusals.refused(RefusalReason::Backend, coming.caller.address, detail);
            Err(code)
        };
        match backend.ask::<RawClaims>(Ask::Connect, None, &question).await {
            Ok(claims) => match claims.identity(self.timeouts.clock().unix_now()) {
                Ok(identity) => Ok(identity.unwrap_or(own)),
                Err(error) => refused(CloseCode::Overloaded, &format!("what the backend says: {error}")),
            },
            Err(error @ NoAnswer::Refused { .. }) => refused(CloseCode::Unauthorized, &error.to_string()),
            Err(error) => refused(CloseCode::Overloaded, &error.to_string()),
        }
    }

    /// Who the client of this resume token was, if its session is there and that still holds. Where tokens are needed, the one that it came with
    /// must name the same user.
    fn known(&self, resume: &str, own: &Identity) -> Option<Identity> {
        let identity = self.sessions.find(resume)?.identity();
        let now = self.timeouts.clock().unix_now();
        let holds = identity.expires().is_none_or(|expires| expires > now);
        (holds && (!self.auth.needs_token() || identity.is_same_user(own))).then_some(identity)
    }
}

/// Those of the request's cookies that have one of these names. Of several with the same name, the first counts (RFC 6265, section 5.4).
fn cookies_of<'a>(headers: &'a HeaderMap, names: &'a [String]) -> BTreeMap<&'a str, &'a str> {
    let mut found = BTreeMap::new();
    let lines = headers.get_all(COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    for (name, value) in lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='))
    {
        if names.iter().any(|wanted| wanted == name) {
            found.entry(name).or_insert(value);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_found_by_name() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, "a=1; sid=x=y;b=2".parse().expect("a header"));
        headers.append(COOKIE, "sid=second; c; =d".parse().expect("a header"));
        let names = ["sid", "b", "c", "none"].map(str::to_owned);
        let found: Vec<_> = cookies_of(&headers, &names).into_iter().collect();
        assert_eq!(found, [("b", "2"), ("sid", "x=y")]);
    }
}
