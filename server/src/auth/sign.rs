use std::collections::BTreeMap;

use jsonwebtoken::{EncodingKey, Header};
use serde::Serialize;

use super::Permission;
use super::keys::{Algorithm, Key};
use crate::clock::UnixTime;

/// What a token to be signed says.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The user.
    pub sub: String,
    /// When it expires, if it does.
    pub expires: Option<UnixTime>,
    /// What it allows, by pattern.
    pub channels: BTreeMap<String, Vec<Permission>>,
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
    /// The library's word.
    #[error("cannot sign: {0}")]
    Failed(String),
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
struct Claims<'a> {
    sub: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exp: Option<u64>,
    channels: &'a BTreeMap<String, Vec<Permission>>,
}

pub(super) fn sign(keys: &[Key], grant: &Grant, kid: Option<&str>) -> Result<String, SignError> {
    let key = keys.iter().find(|key| key.kid.as_deref() == kid).ok_or_else(|| match kid {
        Some(kid) => SignError::UnknownKey(kid.to_owned()),
        None => SignError::NoSecret(hs_kids(keys)),
    })?;
    if key.algorithm != Algorithm::Hs256 {
        return Err(SignError::PublicKey(kid.unwrap_or_default().to_owned()));
    }
    let failed = |error: jsonwebtoken::errors::Error| SignError::Failed(error.to_string());
    let secret = EncodingKey::from_secret(key.material.try_get_as_bytes().map_err(failed)?);
    let header = Header { kid: kid.map(ToOwned::to_owned), ..Header::new(key.algorithm.of_library()) };
    let claims =
        Claims { sub: &grant.sub, exp: grant.expires.map(UnixTime::as_secs), channels: &grant.channels };
    jsonwebtoken::encode(&header, &claims, &secret).map_err(failed)
}

fn hs_kids(keys: &[Key]) -> Vec<String> {
    let signing = keys.iter().filter(|key| key.algorithm == Algorithm::Hs256);
    signing.filter_map(|key| key.kid.as_deref().map(ToOwned::to_owned)).collect()
}
