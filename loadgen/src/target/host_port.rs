//! Host and port of a URL.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use hyper::Uri;
use tokio::net::lookup_host;

const HTTP_PORT: u16 = 80;

/// Host, without the brackets of an IPv6 address, and port. Displayed as an authority: `example.test:80`,
/// `[::1]:80`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostPort {
    host: String,
    port: u16,
}

impl HostPort {
    pub(super) fn of(uri: &Uri) -> Result<Self, String> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        if host.is_empty() {
            return Err("the URL has no host".to_owned());
        }
        Ok(Self { host: host.to_owned(), port: uri.port_u16().unwrap_or(HTTP_PORT) })
    }

    /// Resolves the host to its first address.
    pub(super) async fn resolve(&self) -> io::Result<SocketAddr> {
        let mut addresses = lookup_host((self.host.as_str(), self.port)).await?;
        addresses.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the host has no address"))
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_port_and_ipv6_brackets() {
        for (url, host, port, shown) in [
            ("ws://example.test/ws", "example.test", 80, "example.test:80"),
            ("ws://[::1]:8000/ws", "::1", 8000, "[::1]:8000"),
            ("http://127.0.0.1:8001", "127.0.0.1", 8001, "127.0.0.1:8001"),
        ] {
            let uri: Uri = url.parse().expect("the URL is valid");
            let parsed = HostPort::of(&uri).expect("the URL has a host");
            assert_eq!(parsed, HostPort { host: host.to_owned(), port });
            assert_eq!(parsed.to_string(), shown);
        }
        let path: Uri = "/ws".parse().expect("a path is a URI");
        assert!(HostPort::of(&path).is_err());
    }
}
