//! JSON Web Tokens (RFC 7519), signed as an application's own issuer would sign them.

use std::time::{Duration, SystemTime};

use data_encoding::BASE64URL_NOPAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

/// Value of `auth.secret` for servers under test.
pub const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// Signs with HS256. Written by hand: it takes three lines, whereas a signing library brings every
/// algorithm's cryptography with it.
pub fn sign(claims: &Value, secret: &str) -> String {
    let encode = |part: &[u8]| BASE64URL_NOPAD.encode(part);
    let message =
        format!("{}.{}", encode(br#"{"alg":"HS256","typ":"JWT"}"#), encode(claims.to_string().as_bytes()));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    format!("{message}.{}", encode(hmac::sign(&key, message.as_bytes()).as_ref()))
}

/// Returns a token for [`SECRET`] that was issued just now, does not expire and permits everything, unless
/// these claims say otherwise.
pub fn token(user: &str, claims: Value) -> String {
    let all = ["subscribe", "publish", "presence", "history"];
    let mut token = json!({"sub": user, "iat": unix_time().as_secs_f64(), "channels": {"*": all}});
    let Value::Object(claims) = claims else { panic!("claims are an object: {claims}") };
    token.as_object_mut().expect("an object").extend(claims);
    sign(&token, SECRET)
}

/// Time since 1970.
pub fn unix_time() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().expect("the clock is after 1970")
}

/// Milliseconds since 1970.
pub fn unix_ms() -> u64 {
    u64::try_from(unix_time().as_millis()).expect("the time fits into 64 bits")
}

/// Key of an issuer, for ES256.
#[derive(Debug)]
pub struct IssuerKey {
    kid: String,
    pair: EcdsaKeyPair,
}

impl IssuerKey {
    pub fn generate(kid: &str) -> Self {
        let random = SystemRandom::new();
        let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)
            .expect("the system provides randomness");
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref(), &random);
        Self { kid: kid.to_owned(), pair: pair.expect("a generated key is valid") }
    }

    pub fn sign(&self, claims: &Value) -> String {
        let encode = |part: &Value| BASE64URL_NOPAD.encode(part.to_string().as_bytes());
        let message = format!("{}.{}", encode(&json!({"alg": "ES256", "kid": self.kid})), encode(claims));
        let signature =
            self.pair.sign(&SystemRandom::new(), message.as_bytes()).expect("the system provides randomness");
        format!("{message}.{}", BASE64URL_NOPAD.encode(signature.as_ref()))
    }

    pub fn public(&self) -> Value {
        // The first byte says that the point is uncompressed: both coordinates follow.
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        let coordinate = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
        json!({"kty": "EC", "crv": "P-256", "kid": self.kid, "x": coordinate(x), "y": coordinate(y)})
    }
}

/// Returns a JSON Web Key Set of these keys.
pub fn key_set<'a>(keys: impl IntoIterator<Item = &'a IssuerKey>) -> Value {
    json!({"keys": keys.into_iter().map(IssuerKey::public).collect::<Vec<_>>()})
}
