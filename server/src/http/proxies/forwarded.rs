use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use hyper::header::{FORWARDED, HeaderMap, HeaderName};

/// Header in which a proxy names the client's address. Only one of the two headers is trusted, because a
/// proxy writes one and passes the other on as the client sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For: 192.0.2.7, 10.0.0.1`, written by most proxies.
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

    /// Returns the addresses in the header, last one first, with `None` for each entry that is not an
    /// address.
    pub(super) fn addresses_from_the_right(
        self,
        headers: &HeaderMap,
    ) -> impl Iterator<Item = Option<IpAddr>> {
        // Several header lines form one list (RFC 9110, section 5.3).
        headers.get_all(self.name()).into_iter().rev().flat_map(move |line| {
            // Entries further left come from the client and may contain any bytes.
            let line = String::from_utf8_lossy(line.as_bytes());
            let addresses: Vec<_> = match self {
                Self::XForwardedFor => line.rsplit(',').map(|entry| address(entry.trim())).collect(),
                Self::Forwarded => split_unquoted_from_the_right(&line, ',').map(forwarded_for).collect(),
            };
            addresses
        })
    }
}

/// Parses the address in an element of `Forwarded`.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let mut parameters = split_unquoted_from_the_right(element, ';').filter_map(|pair| pair.split_once('='));
    let (_, node) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    let node = node.trim();
    let node = node.strip_prefix('"').and_then(|node| node.strip_suffix('"')).unwrap_or(node);
    // The port may be an obfuscated identifier (RFC 7239, section 6.3).
    address(node).or_else(|| address(node.rsplit_once(':')?.0))
}

/// Splits at separators outside quotes, starting from the right. The part written by the client is on the
/// left, so a quotation that the client leaves open cannot hide what proxies append.
fn split_unquoted_from_the_right(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut is_quoted = false;
        let at = text.char_indices().rev().find(|(at, letter)| {
            is_quoted ^= *letter == '"' && !is_escaped(&text[..*at]);
            *letter == separator && !is_quoted
        });
        let (before, part) = match at {
            Some((at, _)) => (Some(&text[..at]), &text[at + separator.len_utf8()..]),
            None => (None, text),
        };
        rest = before;
        Some(part)
    })
}

/// Whether the character that follows `before` is escaped.
fn is_escaped(before: &str) -> bool {
    before.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// Parses an address with or without a port. A proxy may write an IPv4 address as `::ffff:192.0.2.7`.
fn address(text: &str) -> Option<IpAddr> {
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    text.parse().ok().or_else(with_port).or_else(bracketed).map(|address: IpAddr| address.to_canonical())
}
