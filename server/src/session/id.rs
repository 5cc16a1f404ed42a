use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use arrayvec::ArrayString;
use data_encoding::BASE64URL_NOPAD;
use subtle::ConstantTimeEq;

use encke_base::entropy::Entropy;

const ID_BYTES: usize = 16;
const SECRET_BYTES: usize = 16;
/// Length of 16 bytes in base64 without padding.
const ENCODED_CHARS: usize = 22;
const PREFIX: &str = "s_";
const ID_CHARS: usize = PREFIX.len() + ENCODED_CHARS;
const TOKEN_CHARS: usize = ID_CHARS + 1 + ENCODED_CHARS;

/// A session's public id: 128 random bits, written as `s_` and 22 characters of base64url.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId([u8; ID_BYTES]);

impl SessionId {
    pub(crate) fn random(entropy: &Entropy) -> Self {
        Self(entropy.bytes())
    }

    /// Returns the id as bytes, for records.
    pub(super) const fn bytes(self) -> [u8; ID_BYTES] {
        self.0
    }

    /// The inverse of [`Self::bytes`].
    pub(super) const fn from_bytes(bytes: [u8; ID_BYTES]) -> Self {
        Self(bytes)
    }

    /// The inverse of [`Self::number`].
    pub(super) const fn from_number(number: u128) -> Self {
        Self(number.to_be_bytes())
    }

    /// Returns the id as a number.
    pub(crate) const fn number(self) -> u128 {
        u128::from_be_bytes(self.0)
    }

    /// Returns a byte that is evenly distributed over sessions.
    pub(crate) const fn first_byte(self) -> u8 {
        self.0[0]
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", BASE64URL_NOPAD.encode_display(&self.0))
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error for a string that is not a session id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid session id: expected {PREFIX:?} followed by {ENCODED_CHARS} characters of base64url")]
pub struct InvalidSessionId;

impl FromStr for SessionId {
    type Err = InvalidSessionId;

    fn from_str(text: &str) -> Result<Self, InvalidSessionId> {
        text.strip_prefix(PREFIX).and_then(decode).map(Self).ok_or(InvalidSessionId)
    }
}

fn decode(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 18];
    let decoded = (text.len() == ENCODED_CHARS)
        .then(|| BASE64URL_NOPAD.decode_mut(text.as_bytes(), &mut bytes[..16]))?
        .ok()?;
    bytes[..decoded].try_into().ok()
}

/// Secret half of a resume token, which proves that a client owns a session. Compared in constant time. It
/// cannot be logged, because it does not implement `Debug`.
#[derive(Clone, Copy)]
pub(crate) struct ResumeSecret([u8; SECRET_BYTES]);

impl ResumeSecret {
    pub(crate) fn random(entropy: &Entropy) -> Self {
        Self(entropy.bytes())
    }

    /// Returns the digest that is stored in place of the secret. The secret is random and too long to be
    /// found by brute force.
    pub(super) fn digest(&self) -> SecretDigest {
        let digest = ring::digest::digest(&ring::digest::SHA256, &self.0);
        SecretDigest(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    pub(crate) fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

/// SHA-256 of a secret. A server that has restored a session knows only this digest until the client
/// reconnects.
#[derive(Clone, Copy)]
pub(crate) struct SecretDigest(pub(super) [u8; 32]);

impl fmt::Debug for SecretDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretDigest")
    }
}

impl SecretDigest {
    pub(super) const fn bytes(self) -> [u8; 32] {
        self.0
    }

    pub(super) const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_of(&self, secret: &ResumeSecret) -> bool {
        self.0.ct_eq(&secret.digest().0).into()
    }
}

/// Token with which a client resumes its session: the session's id and its secret, separated by a dot.
#[derive(Clone, Copy)]
pub(crate) struct ResumeToken {
    pub(crate) id: SessionId,
    pub(crate) secret: ResumeSecret,
}

impl ResumeToken {
    /// Returns the token as the client receives it. Neither `Display` nor `Debug` is implemented, so that a
    /// token cannot end up in a log by accident.
    #[must_use]
    pub(crate) fn expose(&self) -> ExposedToken {
        let mut text = ArrayString::new_const();
        for (before, bytes) in [(PREFIX, &self.id.0), (".", &self.secret.0)] {
            text.push_str(before);
            let mut chars = [0; ENCODED_CHARS];
            text.push_str(BASE64URL_NOPAD.encode_mut_str(bytes, &mut chars));
        }
        ExposedToken(text)
    }

    /// Parses a token from a client. `None` if it is malformed.
    #[must_use]
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.split_once('.')?;
        Some(Self { id: id.parse().ok()?, secret: ResumeSecret(decode(secret)?) })
    }
}

/// A resume token as text. It is not heap-allocated, because every connection sends one.
#[derive(Clone, Copy)]
pub(crate) struct ExposedToken(ArrayString<TOKEN_CHARS>);

impl ExposedToken {
    /// Returns the session's id, with which the token begins.
    pub(crate) fn id(&self) -> &str {
        &self.0[..ID_CHARS]
    }
}

impl Deref for ExposedToken {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> ResumeToken {
        let entropy = Entropy::system();
        ResumeToken { id: SessionId::random(&entropy), secret: ResumeSecret::random(&entropy) }
    }

    #[test]
    fn ids_and_tokens_round_trip() {
        let token = token();
        assert_eq!(token.id.to_string().parse(), Ok(token.id));
        assert_eq!((token.expose().id(), token.expose().len()), (&*token.id.to_string(), TOKEN_CHARS));
        let read = ResumeToken::parse(&token.expose()).expect("a token");
        assert_eq!(read.id, token.id);
        assert!(read.secret.matches(&token.secret));
        assert!(!ResumeSecret::random(&Entropy::system()).matches(&token.secret));
    }

    #[test]
    fn malformed_ids_are_rejected() {
        let good = token().id.to_string();
        let long = format!("{good}A");
        for text in
            ["", "s_", "x_AAAAAAAAAAAAAAAAAAAAAA", "s_AAAAAAAAAAAAAAAAAAAAA!", &good[1..], &good[..23], &long]
        {
            assert_eq!(text.parse::<SessionId>(), Err(InvalidSessionId), "{text}");
            assert!(ResumeToken::parse(text).is_none());
        }
    }
}
