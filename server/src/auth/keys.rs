use std::ops::RangeInclusive;
use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::Header;
use jsonwebtoken::dangerous::insecure_decode_claims;
use pkcs1::RsaPublicKey;
use pkcs1::der::Encode;
use pkcs1::der::asn1::UintRef;
use ring::agreement::{self, ECDH_P256, EphemeralPrivateKey};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;
use serde::Deserialize;
use spki::{ObjectIdentifier, SubjectPublicKeyInfoRef};

use super::AuthError;
use super::claims::RawClaims;

/// Minimum length of a secret, which is the length of the hash: a shorter secret would be easier to guess
/// than the signature to forge (RFC 7518, section 3.2).
const MIN_SECRET_BYTES: usize = 32;

/// Accepted sizes of an RSA key. The minimum is from RFC 7518, section 3.3. The maximum bounds the time that
/// verification takes.
const MODULUS_BITS: RangeInclusive<usize> = 2048..=8192;

/// Length of a coordinate (RFC 7518, section 6.2.1.2).
const P256_COORDINATE_BYTES: usize = 32;
/// Identifier of RSA keys (RFC 8017, appendix A.1).
const RSA_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
/// Identifier of public keys on elliptic curves (RFC 5480, section 2.1.1).
const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
/// First byte of a point encoded with both coordinates (SEC 1, section 2.3.3).
const UNCOMPRESSED: u8 = 4;

/// Signature algorithm of a token.
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
    pub(super) const fn to_jsonwebtoken(self) -> jsonwebtoken::Algorithm {
        match self {
            Self::Hs256 => jsonwebtoken::Algorithm::HS256,
            Self::Rs256 => jsonwebtoken::Algorithm::RS256,
            Self::Es256 => jsonwebtoken::Algorithm::ES256,
        }
    }
}

/// Key that verifies tokens. Its algorithm is fixed, regardless of the token's header, so a public key can
/// never be used as a secret.
#[derive(Clone, Debug)]
pub struct Key {
    pub(super) kid: Option<Arc<str>>,
    pub(super) algorithm: Algorithm,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    /// The `Debug` of ring's type shows only the algorithm.
    Secret(hmac::Key),
    Public(UnparsedPublicKey<Arc<[u8]>>),
}

/// Why a key is rejected. The messages do not contain the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// The secret is short enough to be guessed.
    #[error(
        "must be at least {MIN_SECRET_BYTES} bytes long, such as the output of `openssl rand -base64 32`"
    )]
    ShortSecret,
    /// A public key was given where a secret is required.
    #[error("HS256 requires a secret, not a public key")]
    PublicKeyGiven,
    /// The text is not a valid RS256 key.
    #[error("not an RSA public key (in PEM: `-----BEGIN PUBLIC KEY-----`)")]
    NotRsa,
    /// The RSA key is too short to be secure, or too long to verify quickly.
    #[error("the RSA key must have {} to {} bits", MODULUS_BITS.start(), MODULUS_BITS.end())]
    RsaSize,
    /// The text is not a valid ES256 key.
    #[error("not a P-256 public key (in PEM: `-----BEGIN PUBLIC KEY-----`)")]
    NotP256,
}

impl Key {
    /// Creates an HS256 key from the secret shared with the issuer of tokens.
    ///
    /// # Errors
    /// [`BadKey::ShortSecret`].
    pub fn from_secret(kid: Option<&str>, secret: &str) -> Result<Self, BadKey> {
        if secret.len() < MIN_SECRET_BYTES {
            return Err(BadKey::ShortSecret);
        }
        let material = Material::Secret(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()));
        Ok(Self { kid: kid.map(Arc::from), algorithm: Algorithm::Hs256, material })
    }

    /// Parses the issuer's public key in PEM.
    ///
    /// # Errors
    /// [`BadKey`] if it is not a valid key for this algorithm.
    pub fn from_pem(kid: Option<&str>, algorithm: Algorithm, pem: &[u8]) -> Result<Self, BadKey> {
        match algorithm {
            Algorithm::Hs256 => Err(BadKey::PublicKeyGiven),
            Algorithm::Rs256 => Ok(Self::from_rsa_der(kid, rsa_from_pem(pem)?)),
            Algorithm::Es256 => Ok(Self::from_p256_point(kid, p256_from_pem(pem)?)),
        }
    }

    /// Creates an RSA key from its modulus and exponent, both big-endian.
    pub(super) fn from_rsa_numbers(
        kid: Option<&str>,
        modulus: &[u8],
        exponent: &[u8],
    ) -> Result<Self, BadKey> {
        Ok(Self::from_rsa_der(kid, rsa_from_numbers(modulus, exponent)?))
    }

    /// Creates a P-256 key from the coordinates of its point, both big-endian.
    pub(super) fn from_p256_coordinates(kid: Option<&str>, x: &[u8], y: &[u8]) -> Result<Self, BadKey> {
        if [x.len(), y.len()] != [P256_COORDINATE_BYTES; 2] {
            return Err(BadKey::NotP256);
        }
        let point = [&[UNCOMPRESSED], x, y].concat();
        check_point(&point)?;
        Ok(Self::from_p256_point(kid, point))
    }

    fn from_rsa_der(kid: Option<&str>, der: Vec<u8>) -> Self {
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, der.into());
        Self { kid: kid.map(Arc::from), algorithm: Algorithm::Rs256, material: Material::Public(key) }
    }

    fn from_p256_point(kid: Option<&str>, point: Vec<u8>) -> Self {
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point.into());
        Self { kid: kid.map(Arc::from), algorithm: Algorithm::Es256, material: Material::Public(key) }
    }
}

/// Extracts the public key. A private key, or text without a key, must be detected before the first token
/// arrives.
pub(super) fn rsa_from_pem(pem: &[u8]) -> Result<Vec<u8>, BadKey> {
    let der = public_key(pem, RSA_PUBLIC_KEY).ok_or(BadKey::NotRsa)?;
    check_modulus(&RsaPublicKey::try_from(&der[..]).map_err(|_| BadKey::NotRsa)?)?;
    Ok(der)
}

/// Reads the public key of this algorithm from a PEM file, or from the certificate in it.
fn public_key(pem: &[u8], algorithm: ObjectIdentifier) -> Option<Vec<u8>> {
    let file = pem::parse(pem).ok()?;
    let info = match file.tag() {
        "PUBLIC KEY" => file.into_contents(),
        "RSA PUBLIC KEY" => return (algorithm == RSA_PUBLIC_KEY).then(|| file.into_contents()),
        "CERTIFICATE" => {
            let certificate = CertificateDer::from(file.contents());
            ParsedCertificate::try_from(&certificate).ok()?.subject_public_key_info().to_vec()
        }
        _ => return None,
    };
    let info = SubjectPublicKeyInfoRef::try_from(&info[..]).ok()?;
    let key = info.subject_public_key.as_bytes().filter(|_| info.algorithm.oid == algorithm);
    key.map(<[u8]>::to_vec)
}

fn rsa_from_numbers(modulus: &[u8], exponent: &[u8]) -> Result<Vec<u8>, BadKey> {
    let number = |bytes| UintRef::new(bytes).map_err(|_| BadKey::NotRsa);
    let key = RsaPublicKey { modulus: number(modulus)?, public_exponent: number(exponent)? };
    check_modulus(&key)?;
    key.to_der().map_err(|_| BadKey::NotRsa)
}

fn check_modulus(key: &RsaPublicKey<'_>) -> Result<(), BadKey> {
    let modulus = key.modulus.as_bytes();
    let leading_zeros = modulus.first().map_or(0, |byte| byte.leading_zeros() as usize);
    let bits = 8 * modulus.len() - leading_zeros;
    if MODULUS_BITS.contains(&bits) { Ok(()) } else { Err(BadKey::RsaSize) }
}

pub(super) fn p256_from_pem(pem: &[u8]) -> Result<Vec<u8>, BadKey> {
    let point = public_key(pem, EC_PUBLIC_KEY).ok_or(BadKey::NotP256)?;
    check_point(&point)?;
    Ok(point)
}

fn check_point(point: &[u8]) -> Result<(), BadKey> {
    // Perform a key exchange, which succeeds only with a point on the curve: ring validates a key only when
    // it is used.
    let ours =
        EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new()).map_err(|_| BadKey::NotP256)?;
    let theirs = agreement::UnparsedPublicKey::new(&ECDH_P256, point);
    agreement::agree_ephemeral(ours, &theirs, |_| ()).map_err(|_| BadKey::NotP256)
}

/// Parses a token's header.
fn header(token: &str) -> Result<Header, AuthError> {
    let header = jsonwebtoken::decode_header(token).map_err(|_| AuthError::Malformed)?;
    // Reject a header that requires extensions: none are supported (RFC 7515, section 4.1.11).
    if header.crit.is_some() { Err(AuthError::Malformed) } else { Ok(header) }
}

/// Selects the key that the token claims to be signed with.
fn signer<'a>(keys: impl Iterator<Item = &'a Key> + Clone, header: &Header) -> Result<&'a Key, AuthError> {
    let has_algorithm = |key: &&Key| key.algorithm.to_jsonwebtoken() == header.alg;
    if let Some(kid) = header.kid.as_deref() {
        let mut named = keys.filter(|key| key.kid.as_deref() == Some(kid)).peekable();
        named.peek().ok_or(AuthError::UnknownKey)?;
        return named.find(has_algorithm).ok_or(AuthError::WrongAlgorithm);
    }
    // Without a `kid`, the token is for the key without a `kid`, or else for the only key of its algorithm.
    let mut fitting = keys.filter(has_algorithm);
    if let Some(unnamed) = fitting.clone().find(|key| key.kid.is_none()) {
        return Ok(unnamed);
    }
    let first = fitting.next().ok_or(AuthError::WrongAlgorithm)?;
    if fitting.next().is_some() { Err(AuthError::MissingKid) } else { Ok(first) }
}

/// Whether `keys` contains the key that the token claims to be signed with, regardless of whether its
/// signature is valid. Also true for malformed tokens, for which no key needs to be fetched.
pub(super) fn has_signer<'a>(keys: impl Iterator<Item = &'a Key> + Clone, token: &str) -> bool {
    let signer = header(token).and_then(|header| signer(keys, &header));
    !signer.is_err_and(AuthError::has_unknown_key)
}

/// Verifies a token with one of `keys` and returns its claims. Verifies at most one signature, regardless of
/// the token's header.
pub(super) fn verify<'a>(
    keys: impl Iterator<Item = &'a Key> + Clone,
    token: &str,
) -> Result<RawClaims, AuthError> {
    let key = signer(keys, &header(token)?)?;
    let (message, signature) = token.rsplit_once('.').ok_or(AuthError::Malformed)?;
    let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).map_err(|_| AuthError::Malformed)?;
    key.verify(message.as_bytes(), &signature)?;
    if !has_object(message) {
        return Err(AuthError::Malformed);
    }
    insecure_decode_claims(token).map_err(|_| AuthError::Malformed)
}

/// Whether the claims are an object. serde would also accept an array of the values.
fn has_object(message: &str) -> bool {
    let claims = message.split_once('.').and_then(|(_, claims)| claims.get(..claims.len().min(4)));
    let beginning = claims.and_then(|claims| BASE64URL_NOPAD.decode(claims.as_bytes()).ok());
    beginning.is_some_and(|beginning| beginning.trim_ascii_start().first() == Some(&b'{'))
}

impl Key {
    fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), AuthError> {
        let verified = match &self.material {
            Material::Secret(secret) => hmac::verify(secret, message, signature),
            Material::Public(key) => key.verify(message, signature),
        };
        verified.map_err(|_| AuthError::BadSignature)
    }

    /// Signs a message. Returns `None` for a public key.
    pub(super) fn sign(&self, message: &[u8]) -> Option<hmac::Tag> {
        match &self.material {
            Material::Secret(secret) => Some(hmac::sign(secret, message)),
            Material::Public(_) => None,
        }
    }
}
