use std::collections::BTreeMap;

use data_encoding::BASE64URL_NOPAD;
use serde::Serialize;

use super::Permission;
use super::keys::{Algorithm, Key};
use crate::clock::UnixTime;

/// What a token to be signed says.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The user.
    pub sub: String,
    /// When it was issued, if it is to say so.
    pub issued: Option<UnixTime>,
    /// When it expires, if it does.
    pub expires: Option<UnixTime>,
    /// What it allows, by pattern.
    pub channels: BTreeMap<String, Vec<Permission>>,
    /// Channels that sessions join when they begin.
    pub join: Vec<String>,
}

/// Why a token cannot be signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// There is no secret without a `kid`.
    #[error("there is no auth.secret to sign with{}", HsKids(.0))]
    NoSecret(Vec<String>),
    /// There is no key of this `kid`.
    #[error("auth.keys has no key with kid `{0}`")]
    UnknownKey(String),
    /// Public keys cannot sign.
    #[error("the key with kid `{0}` is a public key: it verifies, but cannot sign")]
    PublicKey(String),
}

/// The names of keys that could sign, as the end of a message.
struct HsKids<'a>(&'a [String]);

impl std::fmt::Display for HsKids<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, ", but --kid may name one of: {}", self.0.join(", "))
        }
    }
}

#[derive(Serialize)]
struct Header<'a> {
    alg: &'a str,
    typ: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kid: Option<&'a str>,
}

#[derive(Serialize)]
struct Claims<'a> {
    sub: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iat: Option<u64>,
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
    let key = keys.iter().find(|key| key.kid.as_deref() == kid).ok_or_else(|| match kid {
        Some(kid) => SignError::UnknownKey(kid.to_owned()),
        None => SignError::NoSecret(hs_kids(keys)),
    })?;
    let header = Header { alg: "HS256", typ: "JWT", kid };
    let claims = Claims {
        sub: &grant.sub,
        aud: audience,
        // What is issued within a second is not issued before it.
        iat: grant.issued.map(UnixTime::as_secs),
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
    BASE64URL_NOPAD.encode(&serde_json::to_vec(part).expect("text and numbers serialize"))
}

fn hs_kids(keys: &[Key]) -> Vec<String> {
    let signing = keys.iter().filter(|key| key.algorithm == Algorithm::Hs256);
    signing.filter_map(|key| key.kid.as_deref().map(ToOwned::to_owned)).collect()
}
