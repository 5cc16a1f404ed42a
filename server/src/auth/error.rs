/// Why a token is rejected. The messages are sent to the client and reveal nothing about the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    #[error("a token is required")]
    Missing,
    #[error("the token is not a signed JWT")]
    Malformed,
    #[error("the token's `kid` is unknown")]
    UnknownKey,
    #[error("the token needs a `kid`: several keys use its `alg`")]
    MissingKid,
    /// The token's `alg` differs from that of its key, or no key uses it.
    #[error("the token's `alg` is not accepted")]
    WrongAlgorithm,
    #[error("the token's signature is invalid")]
    BadSignature,
    #[error("the token has expired")]
    Expired,
    #[error("the token was issued before its user was revoked")]
    Revoked,
    #[error("the token is not valid yet")]
    NotYetValid,
    /// A claim is missing or invalid.
    #[error("the token's `{claim}` {problem}")]
    BadClaim {
        /// Name of the claim.
        claim: &'static str,
        problem: &'static str,
    },
}

impl AuthError {
    /// Whether the token's key is unknown: it may belong to another issuer, or be a new key that has not been
    /// fetched yet.
    #[must_use]
    pub fn has_unknown_key(self) -> bool {
        matches!(self, Self::UnknownKey | Self::WrongAlgorithm)
    }
}
