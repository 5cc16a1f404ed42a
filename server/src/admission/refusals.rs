//! Counts and logs connections that get no session, by reason.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use encke_base::metrics::Metrics;
use encke_timeouts::Timeouts;
use strum::{EnumCount, EnumMessage, IntoStaticStr, VariantArray};

use super::LogThrottle;

/// Why a connection got no session. The name is a label in metrics and a field in logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum RefusalReason {
    /// The `Host` header is missing or repeated, or its name is not accepted.
    Host,
    /// Web pages of this origin may not connect.
    Origin,
    /// A token is required, but the request has none.
    TokenMissing,
    /// The token is not a signed JWT.
    TokenMalformed,
    /// The token's `kid` names no known key, or the token has no `kid` although several keys use its `alg`.
    TokenKey,
    /// The token's `kid` may name a new key of the issuer, but the server has not fetched the keys again yet.
    IssuerKeys,
    /// The token's `alg` is not accepted.
    TokenAlgorithm,
    /// The token's signature is invalid.
    TokenSignature,
    /// The address or the session has sent too many tokens with invalid signatures, so this token was not
    /// verified.
    TooManyBadSignatures,
    /// The token has expired.
    TokenExpired,
    /// The token was issued before the tokens of the user were revoked.
    TokenRevoked,
    /// The token is not valid yet.
    TokenNotYetValid,
    /// A claim of the token is missing or invalid.
    TokenClaim,
    /// The backend refused the client, or did not answer.
    Backend,
    /// The query string is malformed or has an unknown parameter, or the request contains different tokens.
    Query,
    /// The token does not permit a channel named in the query.
    Channel,
    /// The server has reached its limit of connections or sessions.
    Overloaded,
    /// The address has too many connections.
    Address,
    /// The admin listener has too many connections.
    Admin,
    /// A request to the admin listener has a key that is not one of `auth.api_keys`.
    ApiKey,
    /// The address opens sessions too fast.
    SessionRate,
    /// The server is shutting down.
    Draining,
    /// The session belongs to another user.
    User,
    /// The session no longer exists, and the client does not accept a new session.
    Gone,
    /// The client has already reconnected on another connection.
    Late,
    /// The client did not send a request in time.
    HandshakeTimeout,
    /// The server closed this connection so that it could accept others: `limits.max_handshakes` was reached,
    /// or no file descriptors were left.
    Handshakes,
    /// The connection does not come from a trusted proxy, or its PROXY header is invalid.
    Proxy,
    /// The TLS handshake failed.
    Tls,
    /// The request is not valid HTTP, or is incomplete.
    Http,
}

/// Counts refusals, and logs at most one per second for each reason.
#[derive(Debug)]
pub(crate) struct Refusals {
    metrics: Arc<Metrics>,
    timeouts: Arc<Timeouts>,
    throttles: [LogThrottle; RefusalReason::COUNT],
}

impl Refusals {
    /// Initializes the counter of every reason to zero, so that alerts see the first refusal as a change.
    pub(crate) fn new(metrics: Arc<Metrics>, timeouts: Arc<Timeouts>) -> Self {
        for reason in RefusalReason::VARIANTS {
            metrics.connections.show_refusals(reason.into());
        }
        Self { metrics, timeouts, throttles: Default::default() }
    }

    /// Records the refusal of a connection from this address.
    pub(crate) fn record(&self, reason: RefusalReason, address: IpAddr, detail: impl fmt::Display) {
        let name = reason.into();
        self.metrics.connections.refused(name);
        if let Some(more) = self.throttles[reason as usize].pass(self.timeouts.clock().now()) {
            tracing::info!(reason = name, %address, %detail, more, "connection refused");
        } else {
            tracing::debug!(reason = name, %address, %detail, "connection refused");
        }
    }
}
