use std::sync::Arc;
use std::time::Duration;

use encke_timeouts::clock::UnixTime;
use minicbor::{Decode, Encode};
use serde::Deserialize;
use serde_json::Value;

use super::claims::Claims;
use super::{AuthError, CredentialsDigest, Permission, Permissions};

/// Identity and permissions of a client. It has the size of a pointer, because every session contains one.
#[derive(Clone, Debug, Default)]
pub struct Identity(Option<Arc<Claims>>);

/// [`Identity`] as stored in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct IdentityRecord {
    /// `None` for an anonymous client whose permissions the backend has stated.
    #[n(0)]
    pub(crate) user: Option<String>,
    /// Wall-clock time.
    #[n(1)]
    expires_ms: Option<u64>,
    #[n(2)]
    rules: Permissions,
    /// Wall-clock time.
    #[n(3)]
    issued_ms: Option<u64>,
    #[cbor(n(4), default)]
    join: Vec<String>,
    #[n(5)]
    credentials: Option<u64>,
}

impl Identity {
    /// Identity of an anonymous client with all permissions. Used if neither tokens nor the backend authenticate
    /// clients.
    pub const ANONYMOUS: Self = Self(None);

    /// The token's `sub`, or `None` for an anonymous client.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.0.as_ref()?.sub.as_deref()
    }

    /// [`user`](Self::user) as a shared string.
    pub(crate) fn shared_user(&self) -> Option<Arc<str>> {
        self.0.as_ref()?.sub.clone()
    }

    /// Channels that the client's sessions join when they begin.
    pub(crate) fn joins(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|known| &known.join).map(|name| &**name)
    }

    /// Whether the backend stated the claims when the client connected, so that it need not be asked about the
    /// channels in [`joins`](Self::joins).
    pub(crate) fn is_from_backend(&self) -> bool {
        self.credentials().is_some()
    }

    /// Digest of the credentials for which the backend stated the claims. `None` if the backend did not state them.
    pub(crate) fn credentials(&self) -> Option<CredentialsDigest> {
        self.0.as_ref()?.credentials
    }

    /// The token's `iat`, if present.
    pub(crate) fn issued(&self) -> Option<UnixTime> {
        self.0.as_ref()?.iat
    }

    /// When the token expires, if it has an `exp`.
    #[must_use]
    pub fn expires(&self) -> Option<UnixTime> {
        self.0.as_ref()?.exp
    }

    /// Creates the record for a snapshot, or `None` for a client that was not authenticated.
    pub(crate) fn record(&self) -> Option<IdentityRecord> {
        let known = self.0.as_ref()?;
        Some(IdentityRecord {
            user: self.user().map(ToOwned::to_owned),
            expires_ms: known.exp.map(UnixTime::as_millis),
            rules: known.permissions.clone(),
            issued_ms: known.iat.map(UnixTime::as_millis),
            join: self.joins().map(ToOwned::to_owned).collect(),
            credentials: known.credentials.map(CredentialsDigest::to_bits),
        })
    }

    /// Reverse of [`Self::record`].
    pub(crate) fn restore(record: Option<IdentityRecord>) -> Self {
        let time = |millis| UnixTime::since_epoch(Duration::from_millis(millis));
        record.map_or(Self::ANONYMOUS, |record| {
            let IdentityRecord { user, expires_ms, rules, issued_ms, join, credentials } = record;
            Self::from(Claims {
                sub: user.map(Into::into),
                iat: issued_ms.map(time),
                exp: expires_ms.map(time),
                permissions: rules,
                join: join.into_iter().map(Into::into).collect(),
                credentials: credentials.and_then(CredentialsDigest::from_bits),
            })
        })
    }

    /// Whether the client has this permission on `channel`.
    #[must_use]
    pub fn allows(&self, permission: Permission, channel: &str) -> bool {
        self.0.as_ref().is_none_or(|known| known.permissions.allows(permission, channel))
    }

    /// Whether both identities belong to the same user. Required to resume a session and to replace its
    /// token.
    #[must_use]
    pub fn is_same_user(&self, other: &Self) -> bool {
        self.user() == other.user()
    }
}

impl From<Claims> for Identity {
    fn from(claims: Claims) -> Self {
        Self(Some(Arc::new(claims)))
    }
}

/// Claims returned by the backend, of one of three kinds:
/// - those of a token, with `sub`
/// - `{"anonymous":true,"channels":...}`, possibly with the other claims of a token
/// - `{"token":true}`: those of the client's own token, which the server has verified
#[derive(Debug, Deserialize)]
pub(crate) struct BackendClaims(serde_json::Map<String, Value>);

impl BackendClaims {
    /// Fields of a response: the claims of a token (`iss` and `jti` have no effect), and the fields that may replace
    /// `sub`.
    pub(crate) const FIELDS: [&str; 11] =
        ["sub", "iat", "exp", "nbf", "channels", "join", "aud", "iss", "jti", "anonymous", "token"];

    /// Returns the identity of a client according to the backend, without a signature. `own` is the identity
    /// according to the client's token, and `credentials` the digest of what the backend has received.
    ///
    /// # Errors
    /// The problem, if a claim is not valid, or if the claims do not say who the client is.
    pub(crate) fn identity(
        self,
        own: Identity,
        credentials: CredentialsDigest,
        now: UnixTime,
    ) -> Result<Identity, String> {
        self.checked_identity(own, credentials, now).map_err(|error| match error {
            AuthError::BadClaim { claim, problem } => format!("`{claim}` {problem}"),
            AuthError::Expired => "`exp` has passed".to_owned(),
            AuthError::NotYetValid => "`nbf` is in the future".to_owned(),
            error => error.to_string(),
        })
    }

    fn checked_identity(
        self,
        own: Identity,
        credentials: CredentialsDigest,
        now: UnixTime,
    ) -> Result<Identity, AuthError> {
        let Self(mut said) = self;
        let mut states = |claim| match said.remove(claim) {
            None => Ok(false),
            Some(Value::Bool(true)) => Ok(true),
            Some(_) => Err(AuthError::BadClaim { claim, problem: "is not `true`" }),
        };
        let (is_anonymous, is_own) = (states("anonymous")?, states("token")?);
        let bad = |claim, problem| Err(AuthError::BadClaim { claim, problem });
        match (said.contains_key("sub"), is_anonymous, is_own) {
            (false, false, false) => return bad("sub", "is missing, and so are `anonymous` and `token`"),
            (true, false, false) => {}
            (false, true, false) if !said.contains_key("channels") => {
                return bad("channels", "is missing, which an anonymous client needs");
            }
            (false, true, false) => {}
            (false, false, true) if own.user().is_none() => {
                return bad("token", "is set, but the client has no token that the server has verified");
            }
            (false, false, true) if said.keys().any(|claim| Self::FIELDS.contains(&claim.as_str())) => {
                return bad("token", "is set, so no other claim has an effect");
            }
            (false, false, true) => return Ok(own),
            _ => return bad("sub", "must be the only one of `sub`, `anonymous` and `token`"),
        }
        let raw = serde_json::from_value(Value::Object(said)).map_err(|_| AuthError::Malformed)?;
        let claims = Claims::parse(raw, is_anonymous, None, now)?;
        // The backend vouches for the client at this moment.
        Ok(Claims { iat: claims.iat.or(Some(now)), credentials: Some(credentials), ..claims }.into())
    }
}
