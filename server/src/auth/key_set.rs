use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;
use encke_base::locks::RwLock;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse};
use serde::Deserialize;
use serde_json::Value;

use super::keys::{BadKey, Key};

/// Maximum number of keys in a set. Issuers usually publish two or three.
const MAX_KEYS: usize = 64;

/// Keys of an issuer, which may change while the server runs.
#[derive(Debug, Default)]
pub struct KeySet(RwLock<Arc<[Key]>>);

/// Why a document is not a usable JSON Web Key Set.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadKeySet {
    #[error("is not a JSON Web Key Set: {0}")]
    NotASet(String),
    #[error("contains more than {MAX_KEYS} keys")]
    TooMany,
    #[error("contains no key that verifies RS256 or ES256{}", .0.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    NoUsableKey(Option<String>),
}

#[derive(Deserialize)]
struct RawSet {
    keys: Vec<Value>,
}

impl KeySet {
    pub(crate) fn replace(&self, keys: Vec<Key>) {
        *self.0.write() = keys.into();
    }

    pub(super) fn keys(&self) -> Arc<[Key]> {
        Arc::clone(&self.0.read())
    }
}

/// Parses a JSON Web Key Set (RFC 7517). Returns the keys that verify RS256 or ES256, and the number of other
/// keys, which are ignored as section 5 of the RFC requires.
///
/// # Errors
/// [`BadKeySet`]. A set without a usable key is rejected: accepting it would invalidate every token.
pub(crate) fn parse_key_set(text: &[u8]) -> Result<(Vec<Key>, usize), BadKeySet> {
    let not_a_set = |error: serde_json::Error| BadKeySet::NotASet(error.to_string());
    let RawSet { keys: raw } = serde_json::from_slice(text).map_err(not_a_set)?;
    if raw.len() > MAX_KEYS {
        return Err(BadKeySet::TooMany);
    }
    let (mut keys, mut ignored, mut why) = (Vec::new(), 0, None);
    for key in raw {
        match parse_key(key) {
            Ok(key) => keys.push(key),
            Err(problem) => {
                ignored += 1;
                why = Some(problem);
            }
        }
    }
    if keys.is_empty() { Err(BadKeySet::NoUsableKey(why)) } else { Ok((keys, ignored)) }
}

/// Parses one key. The error describes why the key cannot be used.
fn parse_key(raw: Value) -> Result<Key, String> {
    let jwk: Jwk = serde_json::from_value(raw).map_err(|error| error.to_string())?;
    let common = &jwk.common;
    let name = common.key_id.as_deref();
    let of_key = |problem: &dyn std::fmt::Display| match name {
        Some(kid) => format!("the key with kid `{kid}` {problem}"),
        None => format!("the key without a kid {problem}"),
    };
    let only_for = |algorithm| common.key_algorithm.is_none_or(|only| only == algorithm);
    if common.public_key_use.as_ref().is_some_and(|purpose| *purpose != PublicKeyUse::Signature)
        || common.key_operations.as_ref().is_some_and(|all| !all.contains(&KeyOperations::Verify))
    {
        return Err(of_key(&"is not for signatures"));
    }
    let bytes = |text: &str| {
        let bytes = BASE64URL_NOPAD.decode(text.trim_end_matches('=').as_bytes());
        bytes.map_err(|_| of_key(&"is not valid base64url"))
    };
    let key: Result<Key, BadKey> = match &jwk.algorithm {
        AlgorithmParameters::RSA(key) if only_for(KeyAlgorithm::RS256) => {
            Key::from_rsa_numbers(name, &bytes(&key.n)?, &bytes(&key.e)?)
        }
        AlgorithmParameters::EllipticCurve(key)
            if key.curve == EllipticCurve::P256 && only_for(KeyAlgorithm::ES256) =>
        {
            Key::from_p256_coordinates(name, &bytes(&key.x)?, &bytes(&key.y)?)
        }
        _ => return Err(of_key(&"is for another algorithm")),
    };
    key.map_err(|problem| of_key(&format_args!("is unusable: {problem}")))
}
