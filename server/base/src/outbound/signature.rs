//! Request headers as defined by Standard Webhooks: `webhook-signature: v1,<base64>` is an HMAC-SHA256 of id,
//! time and body.

use std::str::FromStr;

use data_encoding::{BASE64, BASE64_NOPAD};
use encke_timeouts::clock::UnixTime;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use ring::hmac;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

const PREFIX: &str = "whsec_";
/// Length of a key in bytes, according to the specification.
const KEY_LENGTHS: std::ops::RangeInclusive<usize> = 24..=64;

/// Signing key shared with the backend. The `Debug` of ring's type shows only the algorithm.
#[derive(Clone, Debug)]
pub struct Secret(hmac::Key);

/// Why a string is not a valid secret. Error messages do not quote the string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    #[error("must be `whsec_` and base64, as printed by `echo whsec_$(openssl rand -base64 32)`")]
    NotASecret,
    #[error("must encode {} to {} bytes", KEY_LENGTHS.start(), KEY_LENGTHS.end())]
    Length,
}

/// Returns the headers of a JSON request sent at `now`, signed if there is a secret. `id` must be visible
/// ASCII.
pub fn headers(id: &str, now: UnixTime, body: &[u8], secret: Option<&Secret>) -> HeaderMap {
    let text = |text: &str| HeaderValue::from_str(text).expect("base64 and numbers are visible ASCII");
    let seconds = now.as_millis() / 1000;
    let mut headers =
        HeaderMap::from_iter([(CONTENT_TYPE, JSON), (ID, text(id)), (TIMESTAMP, text(&seconds.to_string()))]);
    if let Some(secret) = secret {
        headers.insert(SIGNATURE, text(&secret.sign(id, seconds, body)));
    }
    headers
}

impl Secret {
    /// Value of the `webhook-signature` header.
    fn sign(&self, id: &str, unix_seconds: u64, body: &[u8]) -> String {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(format!("{id}.{unix_seconds}.").as_bytes());
        context.update(body);
        format!("v1,{}", BASE64.encode(context.sign().as_ref()))
    }
}

impl FromStr for Secret {
    type Err = BadSecret;

    fn from_str(text: &str) -> Result<Self, BadSecret> {
        let encoded = text.strip_prefix(PREFIX).ok_or(BadSecret::NotASecret)?;
        let bytes = BASE64_NOPAD.decode(encoded.trim_end_matches('=').as_bytes());
        let bytes = bytes.map_err(|_| BadSecret::NotASecret)?;
        if !KEY_LENGTHS.contains(&bytes.len()) {
            return Err(BadSecret::Length);
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses the example from the specification's reference libraries.
    #[test]
    fn signature_matches_the_example_of_the_specification() {
        let secret: Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().expect("a secret");
        let body = br#"{"test": 2432232314}"#;
        let signed = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn secrets_are_validated() {
        let of = |bytes: usize| format!("{PREFIX}{}", BASE64.encode(&vec![7; bytes]));
        for bytes in [24, 25, 32, 64] {
            assert!(of(bytes).parse::<Secret>().is_ok(), "{bytes}");
            assert!(of(bytes).trim_end_matches('=').parse::<Secret>().is_ok(), "{bytes}, without padding");
        }
        for bytes in [0, 23, 65] {
            assert_eq!(of(bytes).parse::<Secret>().err(), Some(BadSecret::Length), "{bytes}");
        }
        for text in ["", "secret", "whsec_!", "whsec-AAAA", &of(32)[PREFIX.len()..]] {
            assert_eq!(text.parse::<Secret>().err(), Some(BadSecret::NotASecret), "{text}");
        }
    }
}
