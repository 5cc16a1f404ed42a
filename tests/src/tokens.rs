//! JSON Web Tokens (RFC 7519), as an issuer beside the server would sign them.

use data_encoding::BASE64URL_NOPAD;
use ring::hmac;
use serde_json::Value;

/// What servers of tests are given as `auth.secret`.
pub const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// Signs with HS256. By hand, because this needs three lines, and a library that signs brings every algorithm's cryptography with it.
pub fn sign(claims: &Value, secret: &str) -> String {
    let encode = |part: &[u8]| BASE64URL_NOPAD.encode(part);
    let message =
        format!("{}.{}", encode(br#"{"alg":"HS256","typ":"JWT"}"#), encode(claims.to_string().as_bytes()));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    format!("{message}.{}", encode(hmac::sign(&key, message.as_bytes()).as_ref()))
}
