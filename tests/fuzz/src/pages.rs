//! A simple model of which web pages may connect, and under which host names.

use std::net::IpAddr;

/// Returns whether a page of this origin may connect to this host by default. `unguarded` is set
/// if the server requires no token.
pub(crate) fn may_connect(origin: &str, host: &str, unguarded: bool) -> bool {
    let Some((_, authority)) = origin.split_once("://") else { return false };
    let (page, here) = (without_port(authority), without_port(host));
    let is_same = page.eq_ignore_ascii_case(here) && (!unguarded || is_safe_from_rebinding(host));
    is_same || (is_loopback(page) && is_loopback(here))
}

/// Returns whether a host is safe from DNS rebinding, because it is an address or `localhost`.
pub(crate) fn is_safe_from_rebinding(host: &str) -> bool {
    let host = without_port(host);
    address(host).is_some() || is_localhost(host)
}

pub(crate) fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        // The colons of an IPv6 address are within brackets.
        Some((host, port)) if !port.contains(']') => host,
        _ => authority,
    }
}

fn is_loopback(host: &str) -> bool {
    is_localhost(host) || address(host).is_some_and(|address| address.is_loopback())
}

fn is_localhost(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
}

fn address(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse().ok().map(IpAddr::V6),
        None => host.parse().ok().map(IpAddr::V4),
    }
}
