//! Settings of the engine that is a Redis.

use std::fmt;

use super::address::RedisAddress;
use super::sentinel::Sentinels;
use super::tls::RedisTls;

/// What connects the server to a Redis.
#[derive(Clone)]
pub struct RedisSettings {
    /// Where it is.
    pub place: RedisPlace,
    /// For addresses behind TLS.
    pub tls: Option<RedisTls>,
    /// A user of its access lists; empty: the default one.
    pub user: String,
    /// The user's password; empty: none.
    pub password: String,
    /// The number of a database.
    pub database: i64,
    /// Begins the names of all keys.
    pub prefix: String,
    /// Whether one that may drop keys when it is full will do.
    pub allow_eviction: bool,
}

/// Where a Redis is, or who knows.
#[derive(Clone, Debug)]
pub enum RedisPlace {
    /// There.
    At(RedisAddress),
    /// Where they say that the master is.
    Asked(Sentinels),
}

impl fmt::Display for RedisPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(address) => address.fmt(f),
            Self::Asked(sentinels) => sentinels.fmt(f),
        }
    }
}

impl fmt::Debug for RedisSettings {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSettings").field("place", &self.place).finish_non_exhaustive()
    }
}
