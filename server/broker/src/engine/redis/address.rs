//! Addresses of Redis servers.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use rustls::pki_types::ServerName;

/// Address of a Redis server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisAddress {
    /// Host name or IP address, and port.
    Tcp(String, u16),
    /// Like `Tcp`, with TLS. The certificate must be valid for the host.
    Tls(String, u16),
    /// Path of a Unix domain socket.
    Unix(PathBuf),
    /// A Redis in the simulation.
    #[cfg(feature = "simulation")]
    Simulated(super::simulated::SimulatedRedis),
}

const DEFAULT_PORT: u16 = 6379;
const DEFAULT_SENTINEL_PORT: u16 = 26379;

impl FromStr for RedisAddress {
    type Err = String;

    /// Accepts `redis://host`, `redis://host:port`, `rediss://host:port` and `unix:///path`.
    fn from_str(url: &str) -> Result<Self, String> {
        Self::parse(url, DEFAULT_PORT)
    }
}

impl RedisAddress {
    /// Parses the address of a Sentinel, which may lack a scheme: `host:port` is common for Sentinels.
    ///
    /// # Errors
    /// A description of the problem.
    pub fn parse_sentinel(url: &str) -> Result<Self, String> {
        if url.contains("://") {
            return Self::parse(url, DEFAULT_SENTINEL_PORT);
        }
        let (host, port) = host_and_port(url, DEFAULT_SENTINEL_PORT)?;
        Ok(Self::Tcp(host, port))
    }

    fn parse(url: &str, port_if_none: u16) -> Result<Self, String> {
        if let Some(path) = url.strip_prefix("unix://") {
            let is_path = path.starts_with('/');
            return if is_path {
                Ok(Self::Unix(path.into()))
            } else {
                Err(format!("{EXPECTED}: the path must begin with a slash"))
            };
        }
        if let Some(rest) = url.strip_prefix("rediss://") {
            let (host, port) = host_and_port(rest, port_if_none)?;
            return match ServerName::try_from(&*host) {
                Ok(_) => Ok(Self::Tls(host, port)),
                Err(_) => Err(format!("{EXPECTED}: the host is not a valid name for a certificate")),
            };
        }
        let (host, port) = host_and_port(url.strip_prefix("redis://").ok_or(EXPECTED)?, port_if_none)?;
        Ok(Self::Tcp(host, port))
    }

    #[must_use]
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(..))
    }
}

const EXPECTED: &str = "must be redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH";

fn host_and_port(rest: &str, port_if_none: u16) -> Result<(String, u16), String> {
    let address = rest.strip_suffix('/').unwrap_or(rest);
    if address.contains('@') {
        return Err(format!("{EXPECTED}: user and password belong in engine.user and engine.password"));
    }
    if address.contains(['/', '?', '#']) {
        return Err(format!("{EXPECTED}: nothing may follow the port"));
    }
    // IPv6 addresses are enclosed in brackets.
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (
            host,
            port.parse().map_err(|_| format!("{EXPECTED}: the port must be a number from 0 to 65535"))?,
        ),
        _ => (address, port_if_none),
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if bare.is_empty() || (bare.contains(':') && bare.len() == host.len()) {
        return Err(format!("{EXPECTED}: the host is missing"));
    }
    Ok((bare.to_owned(), port))
}

impl fmt::Display for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, host, port) = match self {
            Self::Unix(path) => return write!(f, "unix://{}", path.display()),
            #[cfg(feature = "simulation")]
            Self::Simulated(redis) => return write!(f, "{redis:?}"),
            Self::Tcp(host, port) => ("redis", host, port),
            Self::Tls(host, port) => ("rediss", host, port),
        };
        if host.contains(':') {
            write!(f, "{scheme}://[{host}]:{port}")
        } else {
            write!(f, "{scheme}://{host}:{port}")
        }
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
            ("rediss://redis.example", "rediss://redis.example:6379"),
            ("rediss://[::1]:7000", "rediss://[::1]:7000"),
            ("unix:///run/redis.sock", "unix:///run/redis.sock"),
        ] {
            let address: RedisAddress = url.parse().expect(url);
            assert_eq!(address.to_string(), expected);
        }
        for (text, expected) in [
            ("redis://localhost", "redis://localhost:26379"),
            ("localhost", "redis://localhost:26379"),
            ("[::1]:7000", "redis://[::1]:7000"),
        ] {
            let sentinel = RedisAddress::parse_sentinel(text).expect("an address");
            assert_eq!(sentinel.to_string(), expected);
        }
        for (url, problem) in [
            ("", "must be redis://"),
            ("http://localhost", "must be redis://"),
            ("redis://", "the host is missing"),
            ("redis://:6379", "the host is missing"),
            ("redis://::1", "the host is missing"),
            ("redis://host:port", "the port must be a number"),
            ("redis://host:65536", "the port must be a number"),
            ("redis://me:secret@host", "engine.password"),
            ("rediss://me:secret@host", "engine.password"),
            ("redis://host/2", "nothing may follow the port"),
            ("rediss://a b", "the host is not a valid name for a certificate"),
            ("unix://run/redis.sock", "must begin with a slash"),
        ] {
            let error = url.parse::<RedisAddress>().expect_err(url);
            assert!(error.contains(problem), "{url}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
