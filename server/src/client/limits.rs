use std::net::IpAddr;
use std::sync::Arc;

use super::PartialMessageSender;
use crate::admission::{DescriptorLimit, PartialMessages, Permits, RateLimiters, Refusals};

/// Limits that all clients share, and the reports of those that exceed them.
pub(crate) struct SharedLimits {
    /// Permits of connections that have a session.
    pub(crate) permits: Arc<Permits>,
    pub(crate) descriptors: DescriptorLimit,
    /// Command rates of users, each across all sessions of the user.
    pub(crate) user_rates: RateLimiters<String>,
    /// Rates of tokens with bad signatures, by network. They are limited because verifying a signature costs
    /// more than sending one.
    pub(crate) bad_signatures: RateLimiters<IpAddr>,
    /// Rates of new sessions, by network.
    pub(crate) session_rates: RateLimiters<IpAddr>,
    /// Partial messages of all connections.
    pub(crate) partial_messages: Arc<PartialMessages<PartialMessageSender>>,
    pub(crate) refusals: Refusals,
}
