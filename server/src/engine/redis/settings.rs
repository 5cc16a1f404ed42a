//! Where Redis is, and what for.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What connects the server to a Redis.
#[derive(Clone)]
pub struct RedisSettings {
    /// Where it is.
    pub address: RedisAddress,
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

/// Where a Redis is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisAddress {
    /// A host, by name or number, and a port.
    Tcp(String, u16),
    /// A socket of the file system.
    Unix(PathBuf),
}

const DEFAULT_PORT: u16 = 6379;

impl std::str::FromStr for RedisAddress {
    type Err = String;

    /// `redis://host`, `redis://host:port`, `unix:///path`.
    fn from_str(url: &str) -> Result<Self, String> {
        if let Some(path) = url.strip_prefix("unix://") {
            let is_path = path.starts_with('/');
            return if is_path {
                Ok(Self::Unix(path.into()))
            } else {
                Err(format!("{EXPECTED}: the path must begin with a slash"))
            };
        }
        let rest = url.strip_prefix("redis://").ok_or(EXPECTED)?;
        let address = rest.strip_suffix('/').unwrap_or(rest);
        if address.contains('@') {
            return Err(format!(
                "{EXPECTED}: user and password have keys of their own (engine.user, engine.password)"
            ));
        }
        if address.contains(['/', '?', '#']) {
            return Err(format!("{EXPECTED}: nothing follows the port"));
        }
        // A number of IPv6 is in brackets.
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (
                host,
                port.parse().map_err(|_| format!("{EXPECTED}: the port is no number from 0 to 65535"))?,
            ),
            _ => (address, DEFAULT_PORT),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if bare.is_empty() || (bare.contains(':') && bare.len() == host.len()) {
            return Err(format!("{EXPECTED}: there is no host"));
        }
        Ok(Self::Tcp(bare.to_owned(), port))
    }
}

const EXPECTED: &str = "must be redis://HOST:PORT or unix:///PATH";

impl fmt::Display for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "redis://[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "redis://{host}:{port}"),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

impl fmt::Debug for RedisSettings {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSettings").field("address", &self.address).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (url, expected) in [
            ("redis://localhost", "redis://localhost:6379"),
            ("redis://10.0.0.1:7000/", "redis://10.0.0.1:7000"),
            ("redis://[::1]", "redis://[::1]:6379"),
            ("redis://[::1]:7000", "redis://[::1]:7000"),
            ("unix:///run/redis.sock", "unix:///run/redis.sock"),
        ] {
            let address: RedisAddress = url.parse().expect(url);
            assert_eq!(address.to_string(), expected);
        }
        for (url, problem) in [
            ("", "must be redis://"),
            ("http://localhost", "must be redis://"),
            ("redis://", "there is no host"),
            ("redis://:6379", "there is no host"),
            ("redis://::1", "there is no host"),
            ("redis://host:port", "the port is no number"),
            ("redis://host:65536", "the port is no number"),
            ("redis://me:secret@host", "engine.password"),
            ("redis://host/2", "nothing follows the port"),
            ("unix://run/redis.sock", "must begin with a slash"),
        ] {
            let error = url.parse::<RedisAddress>().expect_err(url);
            assert!(error.contains(problem), "{url}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
