use std::collections::BTreeMap;

use data_encoding::BASE64URL_NOPAD;
use encke_timeouts::clock::UnixTime;
use jsonwebtoken::Header;
use serde::Serialize;

use super::Permission;
use super::keys::{Algorithm, Key};

/// Contents of a token to be signed.
#[derive(Clone, Debug)]
pub struct Grant {
    pub sub: String,
    /// Value of `iat`, if the token should have one.
    pub issued: Option<UnixTime>,
    /// Value of `exp`, if the token should expire.
    pub expires: Option<UnixTime>,
    /// Permissions by channel pattern.
    pub channels: BTreeMap<String, Vec<Permission>>,
    /// Channels that sessions join when they begin.
    pub join: Vec<String>,
}

/// Why a token cannot be signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// No secret without a `kid` is configured.
    #[error("auth.secret is not set")]
    NoSecret,
    /// No secret without a `kid` is configured. Lists the `kid`s that could sign.
    #[error("auth.secret is not set; use --kid with one of: {}", .0.join(", "))]
    NeedsKid(Vec<String>),
    /// No key with this `kid` is configured.
    #[error("auth.keys contains no key with kid `{0}`")]
    UnknownKey(String),
    /// The key is a public key, which cannot sign.
    #[error("the key with kid `{0}` is a public key, which cannot sign")]
    PublicKey(String),
}

#[derive(Serialize)]
struct JwtClaims<'a> {
    sub: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iat: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exp: Option<u64>,
    channels: &'a BTreeMap<String, Vec<Permission>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    join: &'a [String],
}

pub(super) fn sign(
    keys: &[Key],
    grant: &Grant,
    audience: Option<&str>,
    kid: Option<&str>,
) -> Result<String, SignError> {
    let key = keys.iter().find(|key| key.kid.as_deref() == kid).ok_or_else(|| {
        let signing = keys.iter().filter(|key| key.algorithm == Algorithm::Hs256);
        let mut kids = signing.filter_map(|key| key.kid.as_deref().map(ToOwned::to_owned)).peekable();
        match kid {
            Some(kid) => SignError::UnknownKey(kid.to_owned()),
            None if kids.peek().is_none() => SignError::NoSecret,
            None => SignError::NeedsKid(kids.collect()),
        }
    })?;
    let header =
        Header { kid: kid.map(ToOwned::to_owned), ..Header::new(Algorithm::Hs256.to_jsonwebtoken()) };
    let claims = JwtClaims {
        sub: &grant.sub,
        aud: audience,
        // In milliseconds, because revocations compare it: in whole seconds, it would be earlier or later.
        iat: grant.issued.map(UnixTime::as_secs_f64),
        exp: grant.expires.map(UnixTime::as_secs),
        channels: &grant.channels,
        join: &grant.join,
    };
    let message = format!("{}.{}", part(&header), part(&claims));
    let signature = key.sign(message.as_bytes());
    let signature = signature.ok_or_else(|| SignError::PublicKey(kid.unwrap_or_default().to_owned()))?;
    Ok(format!("{message}.{}", BASE64URL_NOPAD.encode(signature.as_ref())))
}

fn part(part: &impl Serialize) -> String {
    BASE64URL_NOPAD.encode(&serde_json::to_vec(part).expect("plain data serializes"))
}
