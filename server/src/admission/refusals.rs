//! Connections that get no session: counted and logged, each with its reason.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use strum::{EnumCount, EnumMessage, IntoStaticStr, VariantArray};

use super::LogThrottle;
use crate::auth::AuthError;
use crate::metrics::Metrics;
use crate::timeouts::Timeouts;

/// Why a connection got no session. Its name is a label in metrics and a field in logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum RefusalReason {
    /// The request came by a name that is not listed, by none, or by two.
    Host,
    /// The page's origin may not connect.
    Origin,
    /// A token is required.
    TokenMissing,
    /// The token is no signed JWT.
    TokenMalformed,
    /// Its `kid` names no key, or is missing where several keys are of its `alg`.
    TokenKey,
    /// Its `kid` may name a key of the issuer's, which have not been read since it came.
    IssuerKeys,
    /// Its `alg` is not accepted.
    TokenAlgorithm,
    /// No key made its signature.
    TokenSignature,
    /// The address has sent too many of those: its tokens are not looked at.
    TooManyBadSignatures,
    /// It has expired.
    TokenExpired,
    /// It was issued before its user was revoked.
    TokenRevoked,
    /// It is not valid yet.
    TokenNotYetValid,
    /// One of its claims is missing or wrong.
    TokenClaim,
    /// The backend refuses it, or does not answer.
    Backend,
    /// The query is malformed.
    Query,
    /// The token does not allow a channel of the query.
    Channel,
    /// The limit of connections or of sessions is reached.
    Overloaded,
    /// One address has too many connections.
    Address,
    /// There are too many connections to the admin listener.
    Admin,
    /// One address opens too many sessions.
    SessionRate,
    /// The server is going away.
    Draining,
    /// The session is another user's.
    User,
    /// The session is gone, and the client wants no other.
    Gone,
    /// The client has come back on another connection meanwhile.
    Late,
    /// It asked for nothing in time.
    HandshakeTimeout,
    /// There are too many that have asked for nothing yet: for the limit, or for the descriptors that there are.
    Handshakes,
    /// It does not come from a trusted proxy, or does not begin as they do.
    Proxy,
    /// The TLS handshake failed.
    Tls,
    /// The request is not HTTP, or broke off.
    Http,
}

impl From<&AuthError> for RefusalReason {
    fn from(error: &AuthError) -> Self {
        match error {
            AuthError::Missing => Self::TokenMissing,
            AuthError::Malformed => Self::TokenMalformed,
            AuthError::UnknownKey | AuthError::MissingKid => Self::TokenKey,
            AuthError::WrongAlgorithm => Self::TokenAlgorithm,
            AuthError::BadSignature => Self::TokenSignature,
            AuthError::Expired => Self::TokenExpired,
            AuthError::Revoked => Self::TokenRevoked,
            AuthError::NotYetValid => Self::TokenNotYetValid,
            AuthError::BadClaim { .. } => Self::TokenClaim,
        }
    }
}

/// Counts refusals, and logs them: of each reason at most one a second.
#[derive(Debug)]
pub(crate) struct Refusals {
    metrics: Arc<Metrics>,
    timeouts: Arc<Timeouts>,
    throttles: [LogThrottle; RefusalReason::COUNT],
}

impl Refusals {
    /// Each reason is shown from the start, at zero: so the first refusal is a change, which an alarm sees.
    pub(crate) fn new(metrics: Arc<Metrics>, timeouts: Arc<Timeouts>) -> Self {
        for reason in RefusalReason::VARIANTS {
            metrics.connections.show_refusals(reason.into());
        }
        Self { metrics, timeouts, throttles: Default::default() }
    }

    /// A connection from this address was refused.
    pub(crate) fn refused(&self, reason: RefusalReason, address: IpAddr, detail: impl fmt::Display) {
        let name = reason.into();
        self.metrics.connections.refused(name);
        if let Some(more) = self.throttles[reason as usize].pass(self.timeouts.clock().now()) {
            tracing::info!(reason = name, %address, %detail, more, "connection refused");
        } else {
            tracing::debug!(reason = name, %address, %detail, "connection refused");
        }
    }
}
