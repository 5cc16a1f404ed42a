use std::num::NonZeroU64;

use ring::digest::{SHA256, digest};

/// Digest of the credentials with which the backend has authenticated a client. It has only 64 bits of the SHA-256,
/// because each session that the backend has authenticated stores one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CredentialsDigest(NonZeroU64);

impl CredentialsDigest {
    pub(crate) fn of(credentials: &[u8]) -> Self {
        let hash = digest(&SHA256, credentials);
        let bits = hash.as_ref().first_chunk().map(|bits| u64::from_be_bytes(*bits));
        Self(bits.and_then(NonZeroU64::new).unwrap_or(NonZeroU64::MIN))
    }

    pub(super) fn to_bits(self) -> u64 {
        self.0.get()
    }

    pub(super) fn from_bits(bits: u64) -> Option<Self> {
        NonZeroU64::new(bits).map(Self)
    }
}
