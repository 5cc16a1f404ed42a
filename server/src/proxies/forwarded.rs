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
            // What a client wrote further left may be anything.
            let line = String::from_utf8_lossy(line.as_bytes());
            let addresses: Vec<_> = match self {
                Self::XForwardedFor => line.rsplit(',').map(|entry| address(entry.trim())).collect(),
                Self::Forwarded => split_unquoted_from_the_right(&line, ',').map(forwarded_for).collect(),
            };
            addresses
        })
    }
}

/// The address in an element of `Forwarded`.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let mut parameters = split_unquoted_from_the_right(element, ';').filter_map(|pair| pair.split_once('='));
    let (_, node) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    let node = node.trim();
    let node = node.strip_prefix('"').and_then(|node| node.strip_suffix('"')).unwrap_or(node);
    // A port may be hidden behind a word (section 6.3).
    address(node).or_else(|| address(node.rsplit_once(':')?.0))
}

/// The parts between separators that are not in quotes. From the right, because what a client wrote is on the left: if it leaves a
/// quotation open, that hides nothing that a proxy appends.
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

/// Whether what comes after `before` is escaped.
fn is_escaped(before: &str) -> bool {
    before.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// An address as proxies write it: bare, or with a port.
fn address(text: &str) -> Option<IpAddr> {
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    text.parse().ok().or_else(with_port).or_else(bracketed)
}
