//! Settings of the Redis engine.

use std::fmt;

use secrecy::SecretString;

use super::address::RedisAddress;
use super::tls::RedisTls;

/// Connection settings of the Redis engine.
#[derive(Clone, Debug)]
pub struct RedisSettings {
    pub location: RedisLocation,
    /// TLS settings, for addresses that use TLS.
    pub tls: Option<RedisTls>,
    /// ACL user; empty: the default user.
    pub user: String,
    /// Password of the user; empty: none.
    pub password: SecretString,
    /// Database number.
    pub database: i64,
    /// Prefix of all key names.
    pub prefix: String,
    /// Whether to accept a Redis that evicts keys when its memory is full.
    pub allow_eviction: bool,
    /// Maximum size of a reply. A connection with a longer one is closed.
    pub max_reply_bytes: usize,
}

/// How to find the Redis master.
#[derive(Clone, Debug)]
pub enum RedisLocation {
    /// At a fixed address.
    Address(RedisAddress),
    /// By querying Sentinels.
    Sentinels(Sentinels),
}

impl fmt::Display for RedisLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Sentinels(sentinels) => sentinels.fmt(f),
        }
    }
}

/// Sentinels, and the master whose address they are queried for.
#[derive(Clone, Debug)]
pub struct Sentinels {
    /// Addresses. Either all of them and the master use TLS, or none.
    pub addresses: Vec<RedisAddress>,
    /// Name of the master in the Sentinels' configuration.
    pub master: String,
    /// ACL user; empty: the default user.
    pub user: String,
    /// Password of the user; empty: none.
    pub password: SecretString,
}

impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        write!(f, "{} of {}", self.master, addresses.join(","))
    }
}
