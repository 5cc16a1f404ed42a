use std::sync::Arc;
use std::time::Duration;

use encke_timeouts::clock::UnixTime;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{AuthError, CredentialsDigest, Permission, Permissions};

/// Maximum length of a user name, in bytes.
pub(crate) const MAX_USER_BYTES: usize = 255;

/// Tolerance for an issuer's clock that is ahead of the server's, applied to `nbf` and `iat`. `exp` has no
/// tolerance, because a token expires at the same time on every server.
const NOT_BEFORE_LEEWAY: Duration = Duration::from_secs(30);

/// Supported claims as they appear in the token. They are parsed one by one so that an error can name the
/// claim.
#[derive(Debug, Deserialize)]
pub(super) struct RawClaims {
    #[serde(default, deserialize_with = "present")]
    sub: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    iat: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    exp: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    nbf: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    channels: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    join: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    aud: Option<Value>,
}

/// Keeps `null`, which is not a valid claim: a backend sends it if it lacks a value, such as the time at which the
/// client's access ends.
fn present<'de, D: Deserializer<'de>>(json: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(json).map(Some)
}

/// Supported claims, validated.
#[derive(Debug)]
pub(super) struct Claims {
    /// `None` for an anonymous client.
    pub(super) sub: Option<Arc<str>>,
    pub(super) iat: Option<UnixTime>,
    pub(super) exp: Option<UnixTime>,
    pub(super) permissions: Permissions,
    pub(super) join: Box<[Box<str>]>,
    /// Digest of the credentials that the client presented, if the backend stated these claims when the client
    /// connected. `None` if the claims are those of a token.
    pub(super) credentials: Option<CredentialsDigest>,
}

impl Claims {
    /// Validates the claims, which have no `sub` if the client is anonymous. `name` is the audience that the
    /// server expects, if one is configured. A token is expired at its `exp` (RFC 7519, section 4.1.4).
    pub(super) fn parse(
        raw: RawClaims,
        is_anonymous: bool,
        name: Option<&str>,
        now: UnixTime,
    ) -> Result<Self, AuthError> {
        check_audience(raw.aud.as_ref(), name)?;
        let permissions = raw.channels.as_ref().map(Permissions::parse).transpose()?.unwrap_or_default();
        let claims = Self {
            join: parse_join(raw.join.as_ref(), &permissions)?,
            sub: (!is_anonymous).then(|| parse_sub(raw.sub)).transpose()?,
            iat: parse_date("iat", raw.iat.as_ref(), Duration::ZERO)?,
            exp: parse_date("exp", raw.exp.as_ref(), ROUND_UP)?,
            permissions,
            credentials: None,
        };
        let nbf = parse_date("nbf", raw.nbf.as_ref(), ROUND_UP)?;
        if claims.exp.is_some_and(|exp| now >= exp) {
            return Err(AuthError::Expired);
        }
        if nbf.is_some_and(|nbf| now + NOT_BEFORE_LEEWAY < nbf) {
            return Err(AuthError::NotYetValid);
        }
        // Such a token would outlive a revocation and the maximum lifetime.
        if claims.iat.is_some_and(|iat| now + NOT_BEFORE_LEEWAY < iat) {
            return Err(AuthError::BadClaim { claim: "iat", problem: "is in the future" });
        }
        Ok(claims)
    }

    /// Checks the token's lifetime. Unless the token has both `iat` and `exp`, its lifetime is unknown, and
    /// it is rejected.
    pub(super) fn check_lifetime(&self, longest: Duration) -> Result<(), AuthError> {
        let bad = |claim, problem| Err(AuthError::BadClaim { claim, problem });
        match (self.iat, self.exp) {
            (None, _) => bad("iat", "is missing (auth.max_token_lifetime)"),
            (_, None) => bad("exp", "is missing (auth.max_token_lifetime)"),
            (Some(iat), Some(exp)) if exp.since(iat) > longest => {
                bad("exp", "is too long after `iat` (auth.max_token_lifetime)")
            }
            (Some(_), Some(_)) => Ok(()),
        }
    }
}

/// Checks `aud`. A token for another audience must be rejected (RFC 7519, section 4.1.3). If the server has a
/// name, a token without `aud` is rejected as well: an issuer that uses `aud` may also issue tokens for other
/// servers.
fn check_audience(claim: Option<&Value>, name: Option<&str>) -> Result<(), AuthError> {
    let bad = |problem| Err(AuthError::BadClaim { claim: "aud", problem });
    match (claim, name) {
        (None, None) => Ok(()),
        (Some(_), None) => bad("is not accepted: no audience is configured (auth.audience)"),
        (Some(Value::String(audience)), Some(name)) if audience == name => Ok(()),
        (Some(Value::Array(all)), Some(name)) if all.iter().any(|audience| audience == name) => Ok(()),
        (Some(_), Some(_)) => bad("does not contain this server's audience (auth.audience)"),
        (None, Some(_)) => bad("is missing (auth.audience)"),
    }
}

fn parse_sub(claim: Option<Value>) -> Result<Arc<str>, AuthError> {
    let bad = |problem| AuthError::BadClaim { claim: "sub", problem };
    match claim {
        None => Err(bad("is missing")),
        Some(Value::String(sub)) if sub.is_empty() => Err(bad("is empty")),
        Some(Value::String(sub)) if sub.len() > MAX_USER_BYTES => Err(bad("is longer than 255 bytes")),
        Some(Value::String(sub)) if sub.chars().any(char::is_control) => {
            Err(bad("contains a control character"))
        }
        Some(Value::String(sub)) => Ok(sub.into()),
        Some(_) => Err(bad("is not a string")),
    }
}

/// Parses the claim `join`, such as `["news","chat.lobby"]`.
fn parse_join(claim: Option<&Value>, permissions: &Permissions) -> Result<Box<[Box<str>]>, AuthError> {
    let bad = |problem| AuthError::BadClaim { claim: "join", problem };
    let Some(claim) = claim else { return Ok(Box::default()) };
    let channels = claim.as_array().ok_or(bad("is not a list"))?;
    let name = |channel: &Value| {
        let name = channel.as_str().ok_or(bad("contains an entry that is not a string"))?;
        if !permissions.allows(Permission::Subscribe, name) {
            return Err(bad("contains a channel without `subscribe` permission in `channels`"));
        }
        Ok(name.into())
    };
    channels.iter().map(name).collect()
}

/// The times of this century in milliseconds, which no backend means as seconds.
const IN_MILLISECONDS: std::ops::Range<f64> = 1e12..4.2e12;

fn parse_date(
    name: &'static str,
    claim: Option<&Value>,
    rounding: Duration,
) -> Result<Option<UnixTime>, AuthError> {
    if claim.and_then(Value::as_f64).is_some_and(|date| IN_MILLISECONDS.contains(&date)) {
        return Err(AuthError::BadClaim { claim: name, problem: "is in milliseconds instead of seconds" });
    }
    claim
        .map(|value| {
            numeric_date(value, rounding)
                .ok_or(AuthError::BadClaim { claim: name, problem: "is not a number of seconds since 1970" })
        })
        .transpose()
}

/// Added before a time is truncated to milliseconds, so that nothing expires early. (`iat` is rounded down
/// instead, so that no token appears newer than it is.)
const ROUND_UP: Duration = Duration::from_nanos(999_999);

/// Parses a `NumericDate` (RFC 7519, section 2): seconds since 1970, with or without a fraction.
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
