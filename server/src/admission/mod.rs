//! Admission control: connection permits, handshakes in progress, rate limits, partial messages, refusals,
//! and the open connections that a shutdown waits for.

mod browsers;
mod descriptor_limit;
mod handshakes;
mod log_throttle;
mod open_connections;
mod partial_messages;
mod permits;
mod rate_limiter;
mod refusals;
mod signature_limit;

pub(crate) use browsers::{BrowserId, BrowserPoll, Browsers};
pub(crate) use descriptor_limit::DescriptorLimit;
pub(crate) use handshakes::{Handshake, Handshakes};
pub(crate) use log_throttle::LogThrottle;
pub(crate) use open_connections::{CompactConnection, OpenConnection, OpenConnections};
pub(crate) use partial_messages::{PartialMessage, PartialMessages};
pub(crate) use permits::{Permit, Permits};
pub(crate) use rate_limiter::{RateDecision, RateLimiter, RateLimiters};
pub use refusals::RefusalReason;
pub(crate) use refusals::Refusals;
pub(crate) use signature_limit::{SignatureLimit, TokenSender};
