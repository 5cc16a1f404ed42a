use std::net::IpAddr;

use hyper::Uri;

/// `host[:port]`, as in an `Origin` or `Host` header. The port may be empty (RFC 3986, section 3.2.3).
#[derive(Debug)]
pub(crate) struct HostPort<'a> {
    pub(crate) host: &'a str,
    pub(super) port: Option<u16>,
}

impl<'a> HostPort<'a> {
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let host = uri.host().filter(|host| !host.is_empty())?;
        // Refuse anything before the host, and anything but a port after it, such as a scheme, user
        // information, a path or a query.
        let port = match text.strip_prefix(host)? {
            "" | ":" => None,
            rest => Some(rest.strip_prefix(':')?.parse().ok()?),
        };
        Some(Self { host: &text[..host.len()], port })
    }

    /// Whether the host is the local machine.
    pub(crate) fn is_loopback(&self) -> bool {
        self.is_localhost() || self.address().is_some_and(|address| address.is_loopback())
    }

    /// Whether the host is a domain name, whose owner decides which address it resolves to.
    pub(crate) fn is_name(&self) -> bool {
        !self.is_localhost() && self.address().is_none()
    }

    fn is_localhost(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost")
    }

    fn address(&self) -> Option<IpAddr> {
        match self.host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']')?.parse().ok().map(IpAddr::V6),
            None => self.host.parse().ok().map(IpAddr::V4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_with_optional_port() {
        let parse = |text| HostPort::parse(text).map(|host_port| (host_port.host, host_port.port));
        for (text, host, port) in [
            ("encke", "encke", None),
            ("encke:", "encke", None),
            ("encke:8000", "encke", Some(8000)),
            ("[::1]", "[::1]", None),
            ("[::1]:", "[::1]", None),
            ("[::1]:8000", "[::1]", Some(8000)),
        ] {
            assert_eq!(parse(text), Some((host, port)), "{text}");
        }
        let invalid = " :8000 encke:x encke:65536 [::1]8000 [::1]z:8000 [::1].evil.example a/ a?a a#a a:1/a b@a a@a \
            a:@a a:1@a http://http / /a *";
        for text in invalid.split(' ') {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn only_ipv6_addresses_have_brackets() {
        let is_name = |text| HostPort::parse(text).map(|host_port| host_port.is_name());
        for (text, expected) in [
            ("127.0.0.1:8000", Some(false)),
            ("[::1]:8000", Some(false)),
            ("[::ffff:127.0.0.1]", Some(false)),
            ("[127.0.0.1]", Some(true)),
            ("127.0.0.1.example", Some(true)),
            ("localhost", Some(false)),
        ] {
            assert_eq!(is_name(text), expected, "{text}");
        }
        assert_eq!(is_name("::1"), None, "its last group is parsed as a port");
    }
}
