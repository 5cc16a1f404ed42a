use std::net::IpAddr;

use hyper::Uri;

/// `host[:port]`, as in an `Origin` or a `Host` header. The port may be empty (RFC 3986, section 3.2.3).
#[derive(Debug)]
pub(crate) struct HostPort {
    pub(super) host: String,
    pub(super) port: Option<u16>,
}

impl HostPort {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        // Neither header has a path or a user.
        if text.contains(['/', '?', '#', '@']) {
            return None;
        }
        let uri: Uri = text.parse().ok()?;
        let host = uri.host().filter(|host| !host.is_empty())?.to_owned();
        let port = match text.get(host.len()..)?.strip_prefix(':') {
            Some("") | None => None,
            Some(port) => Some(port.parse().ok()?),
        };
        Some(Self { host, port })
    }

    /// Whether it is the machine that asks.
    pub(crate) fn is_loopback(&self) -> bool {
        self.is_localhost() || self.address().is_some_and(|address| address.is_loopback())
    }

    /// Whether the owner of a domain decides where it leads.
    pub(crate) fn is_name(&self) -> bool {
        !self.is_localhost() && self.address().is_none()
    }

    fn is_localhost(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost")
    }

    fn address(&self) -> Option<IpAddr> {
        self.host.trim_start_matches('[').trim_end_matches(']').parse().ok()
    }
}
