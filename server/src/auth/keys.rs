use std::fmt;
use std::sync::Arc;

use jsonwebtoken::crypto::rust_crypto;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{DecodingKey, Validation};
use serde::Deserialize;

use super::AuthError;
use super::claims::RawClaims;

/// As long as the hash: a shorter one could be guessed sooner than the signature forged (RFC 7518, section 3.2).
const SHORTEST_SECRET: usize = 32;

/// RFC 7518, section 3.3.
const SHORTEST_MODULUS_BITS: usize = 2048;

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
    pub(super) material: DecodingKey,
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
    /// An RSA key that can be broken.
    #[error("the RSA key must have at least {SHORTEST_MODULUS_BITS} bits")]
    SmallRsa,
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
        let material = DecodingKey::from_secret(secret.as_bytes());
        Ok(Self { kid: kid.map(Arc::from), algorithm: Algorithm::Hs256, material })
    }

    /// The issuer's public key, in PEM.
    ///
    /// # Errors
    /// [`BadKey`], when it is none for this algorithm.
    pub fn from_pem(kid: Option<&str>, algorithm: Algorithm, pem: &[u8]) -> Result<Self, BadKey> {
        let material = match algorithm {
            Algorithm::Hs256 => return Err(BadKey::NotPublic),
            Algorithm::Rs256 => rsa(pem)?,
            Algorithm::Es256 => p256(pem)?,
        };
        Ok(Self { kid: kid.map(Arc::from), algorithm, material })
    }
}

/// The library looks at an RSA key only when it verifies. A private key, or none at all, must be noticed before.
fn rsa(pem: &[u8]) -> Result<DecodingKey, BadKey> {
    let key = DecodingKey::from_rsa_pem(pem).map_err(|_| BadKey::NotRsa)?;
    let der = key.try_get_as_bytes().map_err(|_| BadKey::NotRsa)?;
    let components = rust_crypto::DEFAULT_PROVIDER.key_utils.rsa_pub_components_from_public_key;
    let (modulus, _) = components(der).map_err(|_| BadKey::NotRsa)?;
    let leading_zeros = modulus.iter().take_while(|byte| **byte == 0).count();
    let first_bits = modulus.get(leading_zeros).map_or(0, |byte| byte.leading_zeros() as usize);
    let bits = 8 * (modulus.len() - leading_zeros) - first_bits;
    if bits < SHORTEST_MODULUS_BITS { Err(BadKey::SmallRsa) } else { Ok(key) }
}

fn p256(pem: &[u8]) -> Result<DecodingKey, BadKey> {
    let key = DecodingKey::from_ec_pem(pem).map_err(|_| BadKey::NotP256)?;
    // A verifier exists for a point on this curve only.
    let verifier = rust_crypto::DEFAULT_PROVIDER.verifier_factory;
    verifier(&jsonwebtoken::Algorithm::ES256, &key).map_err(|_| BadKey::NotP256)?;
    Ok(key)
}

/// The claims of a token that one of `keys` has signed.
pub(super) fn verify(keys: &[Key], token: &str) -> Result<RawClaims, AuthError> {
    let header = jsonwebtoken::decode_header(token).map_err(|_| AuthError::Malformed)?;
    if header.crit.is_some() {
        // It demands extensions that we do not have (RFC 7515, section 4.1.11).
        return Err(AuthError::Malformed);
    }
    let named = |key: &&Key| header.kid.is_none() || key.kid.as_deref() == header.kid.as_deref();
    let mut named = keys.iter().filter(named).peekable();
    named.peek().ok_or(AuthError::UnknownKey)?;
    let mut refusal = AuthError::WrongAlgorithm;
    for key in named.filter(|key| key.algorithm.of_library() == header.alg) {
        match key.verify(token) {
            Err(AuthError::BadSignature) => refusal = AuthError::BadSignature,
            claims => return claims,
        }
    }
    Err(refusal)
}

impl Key {
    fn verify(&self, token: &str) -> Result<RawClaims, AuthError> {
        // The algorithm is the key's. The clock is ours: see `Claims::check_time`.
        let mut validation = Validation::new(self.algorithm.of_library());
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_nbf = false;
        match jsonwebtoken::decode(token, &self.material, &validation) {
            Ok(token) => Ok(token.claims),
            Err(error) => Err(match error.kind() {
                ErrorKind::InvalidSignature => AuthError::BadSignature,
                // A token for someone else must be refused (RFC 7519, section 4.1.3), and we are no one by name.
                ErrorKind::InvalidAudience => AuthError::BadClaim {
                    claim: "aud",
                    problem: "is for someone else: this server has no name",
                },
                ErrorKind::InvalidAlgorithm => AuthError::WrongAlgorithm,
                _ => AuthError::Malformed,
            }),
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
