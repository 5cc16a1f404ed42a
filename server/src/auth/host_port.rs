use std::net::IpAddr;

use hyper::Uri;

/// `host[:port]`, as in an `Origin` or `Host` header. The port may be empty (RFC 3986, section 3.2.3).
#[derive(Debug)]
pub(crate) struct HostPort<'a> {
    pub(super) host: &'a str,
    pub(super) port: Option<u16>,
}

impl<'a> HostPort<'a> {
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (host, rest) = text.split_at(host_length(text)?);
        let port = match rest {
            "" | ":" => None,
            rest => Some(rest.strip_prefix(':')?.parse().ok()?),
        };
        Some(Self { host, port })
    }

    pub(crate) fn host(&self) -> &'a str {
        self.host
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

/// Returns the length of the host at the start of `text`, if there is a valid one.
fn host_length(text: &str) -> Option<usize> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-';
    let plain = text.bytes().take_while(|byte| is_plain(*byte)).count();
    let length = match &text.as_bytes()[plain..] {
        // Fast path for plain names and IPv4 addresses, which make up nearly all hosts.
        [] => plain,
        [b':', port @ ..] if port.iter().all(u8::is_ascii_digit) => plain,
        // `Origin` and `Host` have no path or user information.
        _ if text.contains(['/', '?', '#', '@']) => return None,
        _ => text.parse::<Uri>().ok()?.host().filter(|host| text.starts_with(host))?.len(),
    };
    (length > 0).then_some(length)
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
        for text in ["", ":8000", "encke:x", "encke:65536", "[::1]8000", "[::1]z:8000", "[::1].evil.example"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    /// Reference implementation, which always uses the URI parser.
    fn parse_with_uri(text: &str) -> Option<(String, Option<u16>)> {
        if text.contains(['/', '?', '#', '@']) {
            return None;
        }
        let uri: Uri = text.parse().ok()?;
        let host = uri.host().filter(|host| !host.is_empty())?;
        let port = match text.strip_prefix(host)? {
            "" | ":" => None,
            rest => Some(rest.strip_prefix(':')?.parse().ok()?),
        };
        Some((host.to_owned(), port))
    }

    #[test]
    fn the_fast_path_agrees_with_the_uri_parser() {
        let letters =
            ["", "a", ".", "-", "0", "9", ":", "65535", "[::1]", "http", "*", "_", "%", "+", "@", "/", "é"];
        let each = || letters.iter();
        for ((first, second), (third, fourth)) in each()
            .flat_map(|first| each().map(move |second| (first, second)))
            .flat_map(|two| each().flat_map(move |third| each().map(move |fourth| (two, (third, fourth)))))
        {
            let text = [*first, *second, *third, *fourth].concat();
            let parsed = HostPort::parse(&text).map(|parsed| (parsed.host.to_owned(), parsed.port));
            assert_eq!(parsed, parse_with_uri(&text), "{text}");
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
