use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use hyper::header::{FORWARDED, HeaderMap, HeaderName};

/// The header in which a proxy says whom a request is from. Only one is believed: proxies write one of them and pass the other on as the
/// client wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For: 192.0.2.7, 10.0.0.1`, which most proxies write.
    XForwardedFor,
    /// `Forwarded: for=192.0.2.7;proto=https, for=10.0.0.1` (RFC 7239).
    Forwarded,
}

impl ForwardedHeader {
    pub(crate) fn name(self) -> HeaderName {
        match self {
            Self::XForwardedFor => HeaderName::from_static("x-forwarded-for"),
            Self::Forwarded => FORWARDED,
        }
    }

    /// The addresses, the latest first; `None` for what is not one.
    pub(super) fn addresses_from_the_right(
        self,
        headers: &HeaderMap,
    ) -> impl Iterator<Item = Option<IpAddr>> {
        // Several lines are one list (RFC 9110, section 5.3).
        headers.get_all(self.name()).into_iter().rev().flat_map(move |line| {
            let line = line.to_str().unwrap_or_default();
            let addresses: Vec<_> = match self {
                Self::XForwardedFor => line.rsplit(',').map(|entry| address(entry.trim())).collect(),
                Self::Forwarded => {
                    rfc7239::parse(line).rev().map(|node| node.ok()?.forwarded_for?.ip().copied()).collect()
                }
            };
            addresses
        })
    }
}

/// An address as proxies write it: bare, or with a port.
fn address(text: &str) -> Option<IpAddr> {
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    text.parse().ok().or_else(with_port).or_else(bracketed)
}
