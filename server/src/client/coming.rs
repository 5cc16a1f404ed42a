//! Who a client is that comes, by the word of the backend.

use std::borrow::Cow;
use std::collections::BTreeMap;

use encke_core::close::CloseCode;
use encke_core::dialect::DialectName;
use hyper::header::{COOKIE, HeaderMap, HeaderName, HeaderValue};

use super::caller::{Decided, Decision};
use super::{Caller, Context};
use crate::admission::{RefusalReason, network};
use crate::auth::{Claimed, Identity};
use crate::backend::{Ask, Asker, NoAnswer, WhoComes};
use crate::issuer::Issuer;
use crate::session::Transport;

/// A client that comes.
pub(crate) struct Coming<'a> {
    pub(crate) caller: &'a Caller,
    /// Of its request.
    pub(crate) headers: &'a HeaderMap,
    /// That of its query, or of a message.
    pub(crate) token: Option<&'a str>,
    /// What it comes back with: a token, and the last message that it has.
    pub(crate) resume: Option<(&'a str, Option<u64>)>,
    /// It wants no other session.
    pub(crate) only_resume: bool,
    pub(crate) transport: Transport,
    pub(crate) dialect: DialectName,
}

impl Context {
    /// Whether the backend says who clients are.
    pub(crate) fn asks_who_comes(&self) -> bool {
        self.backend_for(Ask::Connect).is_some()
    }

    /// Whether it can be that [`Self::asks_first`].
    pub(crate) fn may_ask_first(&self) -> bool {
        self.issuer.is_some() || self.asks_who_comes()
    }

    /// Whether something must be asked before it is known who this client is: the backend, or the issuer of tokens for a key that is not
    /// there.
    pub(crate) fn asks_first(&self, caller: &Caller, token: Option<&str>) -> bool {
        self.asks_who_comes() || self.unknown_key_of(caller, token).is_some()
    }

    /// Who is to be asked for the key of this client's token.
    fn unknown_key_of(&self, caller: &Caller, token: Option<&str>) -> Option<&Issuer> {
        let (issuer, token) = (self.issuer.as_deref()?, caller.token(token)?);
        (caller.origin_allowed && issuer.may_know_more(token, &self.auth)).then_some(issuer)
    }

    /// Who a client is: by its token, as ever, and then by the backend. A client that comes back to its session is who it was, unless that has
    /// expired: a backend that is down keeps nobody from coming back.
    pub(crate) async fn who_comes(&self, coming: Coming<'_>) -> Decision {
        let asked = |who| Decision { who, only_resume: false };
        if let Some(issuer) = self.unknown_key_of(coming.caller, coming.token) {
            issuer.learn().await;
        }
        let own = match coming.caller.identify(coming.token, self) {
            Ok(own) => own,
            Err(code) => return asked(Err(code)),
        };
        if !self.asks_who_comes() {
            return asked(Ok(own));
        }
        if let Some((token, seq)) = coming.resume {
            if let Some(identity) = self.known(token, seq, &own) {
                return Decision { who: Ok(identity), only_resume: true };
            }
            if coming.only_resume {
                // Its session is gone: nothing is opened.
                return asked(Ok(own));
            }
        }
        asked(self.ask_who(coming, own).await)
    }

    async fn ask_who(&self, coming: Coming<'_>, own: Identity) -> Decided {
        let address = coming.caller.address;
        let refused = |code, reason, detail: &str| {
            self.refusals.refused(reason, address, detail);
            Err(code)
        };
        let Some(backend) = self.backend_for(Ask::Connect) else { return Ok(own) };
        if !self.session_rates.has_room(&network(address), self.timeouts.clock().now()) {
            let detail = "limits.sessions_per_second_per_address";
            return refused(CloseCode::Overloaded, RefusalReason::SessionRate, detail);
        }
        let has_keys = self.auth.needs_token();
        let (headers, cookies) = backend.passed_on();
        let question = WhoComes {
            transport: coming.transport.into(),
            dialect: coming.dialect.into(),
            address,
            user: own.user(),
            token: coming.caller.token(coming.token).filter(|_| !has_keys),
            headers: headers.iter().filter_map(|name| line_of(coming.headers, name)).collect(),
            cookies: cookies_of(coming.headers, cookies),
        };
        let of_backend = RefusalReason::Backend;
        match backend.ask::<Claimed>(Ask::Connect, Asker::Address(address), &question).await {
            Ok(claimed) => match claimed.identity(self.timeouts.clock().unix_now()) {
                Ok(identity) => Ok(identity.unwrap_or(own)),
                Err(error) => {
                    refused(CloseCode::Overloaded, of_backend, &format!("what the backend says: {error}"))
                }
            },
            Err(error @ NoAnswer::Refused { .. }) => {
                refused(CloseCode::Unauthorized, of_backend, &error.to_string())
            }
            Err(error) => refused(CloseCode::Overloaded, of_backend, &error.to_string()),
        }
    }

    /// Who the client of this resume token was, if its session is there and that still holds. Where tokens are needed, the one that it came with
    /// must name the same user.
    fn known(&self, resume: &str, seq: Option<u64>, own: &Identity) -> Option<Identity> {
        let session = self.sessions.find(resume)?;
        // With more than was sent, it would get another session.
        if seq.is_some_and(|seq| seq > session.seq()) {
            return None;
        }
        let identity = session.identity();
        let now = self.timeouts.clock().unix_now();
        let holds = identity.expires().is_none_or(|expires| expires > now);
        (holds && (!self.auth.needs_token() || identity.is_same_user(own))).then_some(identity)
    }
}

/// All lines of this header as one (RFC 9110, section 5.2), if there are any and they are text.
fn line_of<'a>(headers: &'a HeaderMap, name: &'a HeaderName) -> Option<(&'a str, Cow<'a, str>)> {
    let lines: Result<Vec<&str>, _> = headers.get_all(name).iter().map(HeaderValue::to_str).collect();
    match &*lines.ok()? {
        [] => None,
        [line] => Some((name.as_str(), Cow::Borrowed(*line))),
        lines => Some((name.as_str(), Cow::Owned(lines.join(", ")))),
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
