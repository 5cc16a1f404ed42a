use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::{AuthError, Identity, Permission, Permissions};
use crate::clock::UnixTime;

/// The longest user, in bytes.
pub(crate) const LONGEST_USER: usize = 255;

/// How far an issuer's clock may be ahead of ours before its `nbf`, or its `iat` where that counts, keeps its fresh tokens out. `exp` has no such
/// leeway: it is the same instant for everyone.
const NOT_BEFORE_LEEWAY: Duration = Duration::from_secs(30);

/// The claims that we know, as they are written. They are read one by one, so that the error can name the claim.
#[derive(Debug, Deserialize)]
pub(super) struct RawClaims {
    sub: Option<Value>,
    iat: Option<Value>,
    exp: Option<Value>,
    nbf: Option<Value>,
    channels: Option<Value>,
    join: Option<Value>,
    aud: Option<Value>,
}

/// The claims that we know, checked.
#[derive(Debug)]
pub(super) struct Claims {
    pub(super) sub: Arc<str>,
    pub(super) iat: Option<UnixTime>,
    pub(super) exp: Option<UnixTime>,
    nbf: Option<UnixTime>,
    pub(super) permissions: Permissions,
    pub(super) join: Box<[Box<str>]>,
}

/// What the backend says of a client: claims, or nothing at all. What says something, and not who it is, is a mistake.
#[derive(Debug, Deserialize)]
pub(crate) struct Claimed(serde_json::Map<String, Value>);

impl Claimed {
    /// Who a client is by the word of the backend, which need not be signed. `None` if it says nothing.
    ///
    /// # Errors
    /// [`AuthError`], as of a token.
    pub(crate) fn identity(self, now: UnixTime) -> Result<Option<Identity>, AuthError> {
        let Self(mut said) = self;
        // It has been looked at: there is none.
        said.remove("error");
        if said.is_empty() {
            return Ok(None);
        }
        let raw = serde_json::from_value(Value::Object(said)).map_err(|_| AuthError::Malformed)?;
        let claims = Claims::parse(raw, None)?;
        claims.check_time(now)?;
        // It says so now.
        let issued = claims.iat.or(Some(now));
        Ok(Some(Identity::new(claims.sub, issued, claims.exp, claims.permissions, claims.join)))
    }
}

impl Claims {
    /// `name` is the one that the server has for issuers, if it has one.
    pub(super) fn parse(raw: RawClaims, name: Option<&str>) -> Result<Self, AuthError> {
        check_audience(raw.aud.as_ref(), name)?;
        let permissions = raw.channels.as_ref().map(Permissions::parse).transpose()?.unwrap_or_default();
        Ok(Self {
            join: joined(raw.join.as_ref(), &permissions)?,
            sub: subject(raw.sub)?,
            iat: date("iat", raw.iat.as_ref(), Duration::ZERO)?,
            exp: date("exp", raw.exp.as_ref(), ROUND_UP)?,
            nbf: date("nbf", raw.nbf.as_ref(), ROUND_UP)?,
            permissions,
        })
    }

    /// A token is expired at its `exp` already (RFC 7519, section 4.1.4).
    pub(super) fn check_time(&self, now: UnixTime) -> Result<(), AuthError> {
        if self.exp.is_some_and(|exp| now >= exp) {
            return Err(AuthError::Expired);
        }
        if self.nbf.is_some_and(|nbf| now + NOT_BEFORE_LEEWAY < nbf) {
            return Err(AuthError::NotYetValid);
        }
        Ok(())
    }

    /// Only of a token that says when it was issued and when it expires is it known how long it is good.
    pub(super) fn check_length(&self, longest: Duration, now: UnixTime) -> Result<(), AuthError> {
        let bad = |claim, problem| Err(AuthError::BadClaim { claim, problem });
        match (self.iat, self.exp) {
            (None, _) => bad("iat", "is missing (auth.longest_token)"),
            (_, None) => bad("exp", "is missing (auth.longest_token)"),
            (Some(iat), Some(exp)) if exp.since(iat) > longest => {
                bad("exp", "is too long after `iat` (auth.longest_token)")
            }
            // It would be good for longer from now on.
            (Some(iat), Some(_)) if now + NOT_BEFORE_LEEWAY < iat => {
                bad("iat", "is still to come (auth.longest_token)")
            }
            (Some(_), Some(_)) => Ok(()),
        }
    }
}

/// A token for someone else must be refused (RFC 7519, section 4.1.3). A server with a name takes none that is for no one: an issuer that names
/// it may have other tokens, too.
fn check_audience(claim: Option<&Value>, name: Option<&str>) -> Result<(), AuthError> {
    let bad = |problem| Err(AuthError::BadClaim { claim: "aud", problem });
    match (claim, name) {
        (None, None) => Ok(()),
        (Some(_), None) => bad("is for someone else: this server has no name (auth.audience)"),
        (Some(Value::String(audience)), Some(name)) if audience == name => Ok(()),
        (Some(Value::Array(all)), Some(name)) if all.iter().any(|audience| audience == name) => Ok(()),
        (Some(_), Some(_)) => bad("is for someone else (auth.audience)"),
        (None, Some(_)) => bad("is missing (auth.audience)"),
    }
}

fn subject(claim: Option<Value>) -> Result<Arc<str>, AuthError> {
    let bad = |problem| AuthError::BadClaim { claim: "sub", problem };
    match claim {
        None => Err(bad("is missing")),
        Some(Value::String(sub)) if sub.is_empty() => Err(bad("is empty")),
        Some(Value::String(sub)) if sub.len() > LONGEST_USER => Err(bad("is longer than 255 bytes")),
        Some(Value::String(sub)) => Ok(sub.into()),
        Some(_) => Err(bad("is not text")),
    }
}

/// The claim `join`: `["news","chat.lobby"]`.
fn joined(claim: Option<&Value>, permissions: &Permissions) -> Result<Box<[Box<str>]>, AuthError> {
    let bad = |problem| AuthError::BadClaim { claim: "join", problem };
    let Some(claim) = claim else { return Ok(Box::default()) };
    let channels = claim.as_array().ok_or(bad("is not a list"))?;
    let name = |channel: &Value| {
        let name = channel.as_str().ok_or(bad("has what is not text"))?;
        if !permissions.allows(Permission::Subscribe, name) {
            return Err(bad("has a channel to which `channels` does not allow to subscribe"));
        }
        Ok(name.into())
    };
    channels.iter().map(name).collect()
}

fn date(
    name: &'static str,
    claim: Option<&Value>,
    rounding: Duration,
) -> Result<Option<UnixTime>, AuthError> {
    claim
        .map(|value| {
            numeric_date(value, rounding)
                .ok_or(AuthError::BadClaim { claim: name, problem: "is not in seconds since 1970" })
        })
        .transpose()
}

/// A fraction of a millisecond counts as one: nothing expires early. (Of when a token was issued it counts as nothing: none is
/// younger than it is.)
const ROUND_UP: Duration = Duration::from_nanos(999_999);

/// A `NumericDate` (RFC 7519, section 2): seconds since 1970, with a fraction or without.
fn numeric_date(value: &Value, rounding: Duration) -> Option<UnixTime> {
    if let Some(secs) = value.as_u64() {
        return Some(UnixTime::from_secs(secs));
    }
    let duration = Duration::try_from_secs_f64(value.as_f64()?).ok()?;
    Some(UnixTime::since_epoch(duration.saturating_add(rounding)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numeric_dates() {
        for (text, millis) in [
            ("0", Some(0)),
            ("1700000000", Some(1_700_000_000_000)),
            ("1700000000.0", Some(1_700_000_000_000)),
            ("1700000000.25", Some(1_700_000_000_250)),
            ("1.5e3", Some(1_500_000)),
            ("0.0001", Some(1)),
            ("18446744073709551615", Some(u64::MAX)),
            ("1e19", Some(u64::MAX)),
            ("1e300", None),
            ("-1", None),
            ("-0.5", None),
            ("\"1700000000\"", None),
            ("true", None),
            ("[]", None),
        ] {
            let value = serde_json::from_str(text).expect("JSON");
            let expected = millis.map(|millis| UnixTime::since_epoch(Duration::from_millis(millis)));
            assert_eq!(numeric_date(&value, ROUND_UP), expected, "{text}");
        }
        let late = serde_json::from_str("1.0009").expect("JSON");
        assert_eq!(numeric_date(&late, Duration::ZERO), Some(UnixTime::from_secs(1)));
    }
}
