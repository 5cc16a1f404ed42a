use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use arrayvec::ArrayString;
use data_encoding::BASE64URL_NOPAD;
use subtle::ConstantTimeEq;

use crate::entropy::Entropy;

const ID_BYTES: usize = 16;
const SECRET_BYTES: usize = 16;
/// 16 bytes as base64 without padding.
const ENCODED_CHARS: usize = 22;
const PREFIX: &str = "s_";
const ID_CHARS: usize = PREFIX.len() + ENCODED_CHARS;
const TOKEN_CHARS: usize = ID_CHARS + 1 + ENCODED_CHARS;

/// A session's public name: 128 random bits, written `s_` and 22 characters of base64url.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId([u8; ID_BYTES]);

impl SessionId {
    pub(crate) fn random(entropy: &Entropy) -> Self {
        Self(entropy.bytes())
    }

    /// As it is written down.
    pub(super) const fn bytes(self) -> [u8; ID_BYTES] {
        self.0
    }

    /// The reverse of [`Self::bytes`].
    pub(super) const fn of_bytes(bytes: [u8; ID_BYTES]) -> Self {
        Self(bytes)
    }

    /// The reverse of [`Self::number`].
    pub(super) const fn of_number(number: u128) -> Self {
        Self(number.to_be_bytes())
    }

    /// The same, as a number.
    pub(crate) const fn number(self) -> u128 {
        u128::from_be_bytes(self.0)
    }

    /// Evenly spread over the sessions.
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

/// The text is not a session's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a session id: expected {PREFIX:?} and {ENCODED_CHARS} characters of base64url")]
pub struct BadSessionId;

impl FromStr for SessionId {
    type Err = BadSessionId;

    fn from_str(text: &str) -> Result<Self, BadSessionId> {
        text.strip_prefix(PREFIX).and_then(decode).map(Self).ok_or(BadSessionId)
    }
}

fn decode(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 18];
    let decoded = (text.len() == ENCODED_CHARS)
        .then(|| BASE64URL_NOPAD.decode_mut(text.as_bytes(), &mut bytes[..16]))?
        .ok()?;
    bytes[..decoded].try_into().ok()
}

/// What makes a session its client's own. Compared in constant time, and kept out of every log.
#[derive(Clone, Copy)]
pub(crate) struct Secret([u8; SECRET_BYTES]);

impl Secret {
    pub(crate) fn random(entropy: &Entropy) -> Self {
        Self(entropy.bytes())
    }

    /// What is written down in its place. It is random and long, so nobody finds it by trying.
    pub(super) fn digest(&self) -> SecretDigest {
        let digest = ring::digest::digest(&ring::digest::SHA256, &self.0);
        SecretDigest(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    pub(crate) fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The SHA-256 of a secret: all that a server knows that has taken a session over from another, until its client comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct SecretDigest(pub(super) [u8; 32]);

impl SecretDigest {
    pub(super) fn is_of(&self, secret: &Secret) -> bool {
        self.0.ct_eq(&secret.digest().0).into()
    }
}

impl fmt::Debug for SecretDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretDigest")
    }
}

/// What a client offers to come back: the session's name and its secret, with a dot between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResumeToken {
    pub(crate) id: SessionId,
    pub(crate) secret: Secret,
}

impl ResumeToken {
    /// The token as the client gets it. Not `Display`, so that it does not end up in a log by accident.
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

    /// Reads what a client offers; `None` if that was never a token of ours.
    #[must_use]
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.split_once('.')?;
        Some(Self { id: id.parse().ok()?, secret: Secret(decode(secret)?) })
    }
}

/// A token as text, without an allocation: each connection is told its own.
#[derive(Clone, Copy)]
pub(crate) struct ExposedToken(ArrayString<TOKEN_CHARS>);

impl ExposedToken {
    /// The session's id, with which the token begins.
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
        ResumeToken { id: SessionId::random(&entropy), secret: Secret::random(&entropy) }
    }

    #[test]
    fn ids_and_tokens_are_read_as_they_were_written() {
        let token = token();
        assert_eq!(token.id.to_string().parse(), Ok(token.id));
        assert_eq!((token.expose().id(), token.expose().len()), (&*token.id.to_string(), TOKEN_CHARS));
        let read = ResumeToken::parse(&token.expose()).expect("a token");
        assert_eq!(read.id, token.id);
        assert!(read.secret.matches(&token.secret));
        assert!(!Secret::random(&Entropy::system()).matches(&token.secret));
    }

    #[test]
    fn what_is_no_id_is_refused() {
        let good = token().id.to_string();
        let long = format!("{good}A");
        for text in
            ["", "s_", "x_AAAAAAAAAAAAAAAAAAAAAA", "s_AAAAAAAAAAAAAAAAAAAAA!", &good[1..], &good[..23], &long]
        {
            assert_eq!(text.parse::<SessionId>(), Err(BadSessionId), "{text}");
            assert!(ResumeToken::parse(text).is_none());
        }
    }

    #[test]
    fn a_secret_does_not_show_when_it_is_logged() {
        let token = token();
        let secret = token.expose();
        let secret = secret.split_once('.').expect("a dot").1;
        assert!(!format!("{token:?}").contains(secret));
    }
}
