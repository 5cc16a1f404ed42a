//! What connects the server to a Redis.

use std::fmt;
use std::time::Duration;

use super::address::RedisAddress;
use super::tls::RedisTls;

/// See the [module](self).
#[derive(Clone)]
pub struct RedisSettings {
    /// Where it is.
    pub address: RedisAddress,
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
    /// How many messages a log keeps at least.
    pub history_messages: usize,
    /// For how long a log is kept after its newest message, if not for ever.
    pub history_age: Option<Duration>,
}

impl fmt::Debug for RedisSettings {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSettings").field("address", &self.address).finish_non_exhaustive()
    }
}
