use std::net::IpAddr;
use std::sync::Arc;

use encke_base::quota::network;
use encke_core::Timestamp;

use super::PartialMessageSender;
use crate::admission::{DescriptorLimit, PartialMessages, Permits, RateLimiters, Refusals, SignatureLimit};

/// Limits that all clients share, and the reports of refusals.
pub(crate) struct SharedLimits {
    /// Permits of connections that have a session.
    pub(crate) permits: Arc<Permits>,
    pub(crate) descriptors: DescriptorLimit,
    /// Command rates of users, each across all sessions of the user.
    pub(crate) user_rates: RateLimiters<String>,
    /// Command rates of anonymous clients, by network.
    pub(crate) anonymous_rates: RateLimiters<IpAddr>,
    pub(crate) signatures: SignatureLimit,
    /// Rates of new sessions, by network.
    pub(crate) session_rates: RateLimiters<IpAddr>,
    /// Partial messages of all connections.
    pub(crate) partial_messages: Arc<PartialMessages<PartialMessageSender>>,
    pub(crate) refusals: Refusals,
}

impl SharedLimits {
    /// Counts a command, which counts as `cost` cheap ones, against the rate that this client shares with the
    /// other sessions of its user, or with the other anonymous sessions of its address. Returns whether it is
    /// within the limit.
    pub(crate) fn try_count_command(
        &self,
        user: Option<&str>,
        address: IpAddr,
        cost: u32,
        now: Timestamp,
    ) -> bool {
        match user {
            Some(user) => self.user_rates.try_count_cost(user, cost, now),
            None => self.anonymous_rates.try_count_cost(&network(address), cost, now),
        }
    }

    /// When the next command of this client may be counted.
    pub(crate) fn next_command_at(&self, user: Option<&str>, address: IpAddr) -> Timestamp {
        match user {
            Some(user) => self.user_rates.next_at(user),
            None => self.anonymous_rates.next_at(&network(address)),
        }
    }
}
