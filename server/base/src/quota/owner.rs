//! Owners of items that count against a quota.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// Owner of items that count against a quota: a user, or for anonymous clients an address (for IPv6, a
/// network).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuotaOwner {
    User(Arc<str>),
    Address(IpAddr),
    /// User of the admin API, whose items are evicted last.
    Operator,
}

impl QuotaOwner {
    pub fn new(user: Option<Arc<str>>, address: IpAddr) -> Self {
        user.map_or_else(|| Self::Address(network(address)), Self::User)
    }

    /// Formats the owner for a snapshot.
    pub fn to_text(&self) -> String {
        match self {
            Self::User(user) => format!("user {user}"),
            Self::Address(address) => format!("address {address}"),
            Self::Operator => "operator".to_owned(),
        }
    }

    /// Reverse of [`Self::to_text`].
    pub fn from_text(text: &str) -> Option<Self> {
        match text.split_once(' ') {
            Some(("user", user)) => Some(Self::User(user.into())),
            Some(("address", address)) => address.parse().ok().map(Self::Address),
            _ => (text == "operator").then_some(Self::Operator),
        }
    }

    /// Returns the rank of an owner with this many items. The owner with the highest rank is the first to
    /// lose an item.
    pub fn eviction_rank<N: Default>(&self, amount: N) -> N {
        if *self == Self::Operator { N::default() } else { amount }
    }
}

/// Unit that address limits apply to: an IPv4 address, or an IPv6 /64 network, which is usually assigned to
/// one client.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_round_trip_through_text() {
        let user = QuotaOwner::User("alice smith".into());
        for owner in [
            user,
            QuotaOwner::Address([10, 0, 0, 7].into()),
            QuotaOwner::Address([1; 16].into()),
            QuotaOwner::Operator,
        ] {
            assert_eq!(QuotaOwner::from_text(&owner.to_text()), Some(owner));
        }
        for text in ["", "user", "nobody", "address x", "operator "] {
            assert_eq!(QuotaOwner::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn an_ipv6_network_is_one_owner() {
        let six = |text: &str| QuotaOwner::new(None, text.parse().expect("an address"));
        assert_eq!(six("2001:db8::1"), six("2001:db8::2"));
        assert_ne!(six("2001:db8::1"), six("2001:db8:0:1::1"));
    }
}
