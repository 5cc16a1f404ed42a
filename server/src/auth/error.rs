/// Why a token is not accepted. The messages are for the client: they say nothing about the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// There is none.
    #[error("a token is required")]
    Missing,
    /// It is no JSON Web Token.
    #[error("the token is not a signed JWT")]
    Malformed,
    /// Its `kid` names no key.
    #[error("the token's `kid` is unknown")]
    UnknownKey,
    /// It has no `kid`, and several keys are of its `alg`.
    #[error("the token needs a `kid`: there are several keys of its `alg`")]
    MissingKid,
    /// Its `alg` is not that of its key, or of any key.
    #[error("the token's `alg` is not accepted")]
    WrongAlgorithm,
    /// No key made this signature.
    #[error("the token's signature is wrong")]
    BadSignature,
    /// Its `exp` has passed.
    #[error("the token has expired")]
    Expired,
    /// It was issued before its user was revoked.
    #[error("the token was issued before its user was revoked")]
    Revoked,
    /// Its `nbf` is still to come.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// A claim is missing, or not what it should be.
    #[error("the token's `{claim}` {problem}")]
    BadClaim {
        /// Its name.
        claim: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl AuthError {
    /// The token is signed with a key that is not there: it may be that of another issuer, or one that is still to come.
    #[must_use]
    pub fn is_of_another_key(self) -> bool {
        matches!(self, Self::UnknownKey | Self::WrongAlgorithm)
    }
}
