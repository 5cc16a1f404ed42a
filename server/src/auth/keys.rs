use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::DecodingKey;
use jsonwebtoken::dangerous::insecure_decode_claims;
use ring::agreement::{self, ECDH_P256, EphemeralPrivateKey};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use serde::Deserialize;

use super::AuthError;
use super::claims::RawClaims;

/// As long as the hash: a shorter one could be guessed sooner than the signature forged (RFC 7518, section 3.2).
const SHORTEST_SECRET: usize = 32;

/// At least what RFC 7518 wants, section 3.3; at most what is verified in reasonable time.
const MODULUS_BITS: RangeInclusive<usize> = 2048..=8192;

/// How a token is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Algorithm {
    /// HMAC with SHA-256: one secret signs and verifies.
    Hs256,
    /// RSA (PKCS #1 v1.5) with SHA-256.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
}

impl Algorithm {
    pub(super) const fn of_library(self) -> jsonwebtoken::Algorithm {
        match self {
            Self::Hs256 => jsonwebtoken::Algorithm::HS256,
            Self::Rs256 => jsonwebtoken::Algorithm::RS256,
            Self::Es256 => jsonwebtoken::Algorithm::ES256,
        }
    }
}

/// A key that tokens may be signed with. It has one algorithm, whatever a token says of itself: a public key can never
/// be taken for a secret.
#[derive(Clone)]
pub struct Key {
    pub(super) kid: Option<Arc<str>>,
    pub(super) algorithm: Algorithm,
    material: Material,
}

#[derive(Clone)]
enum Material {
    Secret(hmac::Key),
    Public(UnparsedPublicKey<Arc<[u8]>>),
}

/// Why something is no key. Its messages do not contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// A secret that can be guessed.
    #[error("must be at least {SHORTEST_SECRET} bytes long: try `openssl rand -base64 32`")]
    ShortSecret,
    /// A public key where a secret should be.
    #[error("HS256 takes a secret, not a public key")]
    NotPublic,
    /// Not what RS256 takes.
    #[error("not an RSA public key in PEM (`-----BEGIN PUBLIC KEY-----`)")]
    NotRsa,
    /// An RSA key that can be broken, or that takes too long.
    #[error("the RSA key must have {} to {} bits", MODULUS_BITS.start(), MODULUS_BITS.end())]
    RsaSize,
    /// Not what ES256 takes.
    #[error("not a P-256 public key in PEM (`-----BEGIN PUBLIC KEY-----`)")]
    NotP256,
}

impl Key {
    /// A secret that the issuer of tokens and the server share, for HS256.
    ///
    /// # Errors
    /// [`BadKey::ShortSecret`].
    pub fn from_secret(kid: Option<&str>, secret: &str) -> Result<Self, BadKey> {
        if secret.len() < SHORTEST_SECRET {
            return Err(BadKey::ShortSecret);
        }
        let material = Material::Secret(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()));
        Ok(Self { kid: kid.map(Arc::from), algorithm: Algorithm::Hs256, material })
    }

    /// The issuer's public key, in PEM.
    ///
    /// # Errors
    /// [`BadKey`], when it is none for this algorithm.
    pub fn from_pem(kid: Option<&str>, algorithm: Algorithm, pem: &[u8]) -> Result<Self, BadKey> {
        let key = match algorithm {
            Algorithm::Hs256 => return Err(BadKey::NotPublic),
            Algorithm::Rs256 => UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, rsa(pem)?.into()),
            Algorithm::Es256 => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, p256(pem)?.into()),
        };
        Ok(Self { kid: kid.map(Arc::from), algorithm, material: Material::Public(key) })
    }
}

/// A private key, or none at all, must be noticed before the first token comes.
fn rsa(pem: &[u8]) -> Result<Vec<u8>, BadKey> {
    let key = DecodingKey::from_rsa_pem(pem).map_err(|_| BadKey::NotRsa)?;
    let der = key.try_get_as_bytes().map_err(|_| BadKey::NotRsa)?;
    let components = pkcs1::RsaPublicKey::try_from(der).map_err(|_| BadKey::NotRsa)?;
    let modulus = components.modulus.as_bytes();
    let leading_zeros = modulus.first().map_or(0, |byte| byte.leading_zeros() as usize);
    let bits = 8 * modulus.len() - leading_zeros;
    if MODULUS_BITS.contains(&bits) { Ok(der.to_vec()) } else { Err(BadKey::RsaSize) }
}

fn p256(pem: &[u8]) -> Result<Vec<u8>, BadKey> {
    let key = DecodingKey::from_ec_pem(pem).map_err(|_| BadKey::NotP256)?;
    let point = key.try_get_as_bytes().map_err(|_| BadKey::NotP256)?;
    // ring looks at a key only when it is used. A key exchange succeeds with a point on this curve only.
    let ours =
        EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new()).map_err(|_| BadKey::NotP256)?;
    let theirs = agreement::UnparsedPublicKey::new(&ECDH_P256, point);
    agreement::agree_ephemeral(ours, &theirs, |_| ()).map_err(|_| BadKey::NotP256)?;
    Ok(point.to_vec())
}

/// The claims of a token that one of `keys` has signed. At most one signature is verified, whatever the token says.
pub(super) fn verify(keys: &[Key], token: &str) -> Result<RawClaims, AuthError> {
    let header = jsonwebtoken::decode_header(token).map_err(|_| AuthError::Malformed)?;
    if header.crit.is_some() {
        // It demands extensions that we do not have (RFC 7515, section 4.1.11).
        return Err(AuthError::Malformed);
    }
    let has_algorithm = |key: &&Key| key.algorithm.of_library() == header.alg;
    let key = match header.kid.as_deref() {
        Some(kid) => {
            let named =
                keys.iter().find(|key| key.kid.as_deref() == Some(kid)).ok_or(AuthError::UnknownKey)?;
            Some(named).filter(has_algorithm).ok_or(AuthError::WrongAlgorithm)?
        }
        // It is for the key without a `kid`, or else for the only one of its algorithm.
        None => {
            let fitting = || keys.iter().filter(has_algorithm);
            let unnamed = fitting().find(|key| key.kid.is_none());
            let first = unnamed.or_else(|| fitting().next()).ok_or(AuthError::WrongAlgorithm)?;
            if unnamed.is_none() && fitting().count() > 1 {
                return Err(AuthError::MissingKid);
            }
            first
        }
    };
    let (message, signature) = token.rsplit_once('.').ok_or(AuthError::Malformed)?;
    let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).map_err(|_| AuthError::Malformed)?;
    key.verify(message.as_bytes(), &signature)?;
    insecure_decode_claims(token).map_err(|_| AuthError::Malformed)
}

impl Key {
    fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), AuthError> {
        let verified = match &self.material {
            Material::Secret(secret) => hmac::verify(secret, message, signature),
            Material::Public(key) => key.verify(message, signature),
        };
        verified.map_err(|_| AuthError::BadSignature)
    }

    /// The signature of a message; nothing for a public key.
    pub(super) fn sign(&self, message: &[u8]) -> Option<hmac::Tag> {
        match &self.material {
            Material::Secret(secret) => Some(hmac::sign(secret, message)),
            Material::Public(_) => None,
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("kid", &self.kid)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}
