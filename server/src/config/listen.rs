//! `[listen]`: the addresses, and the proxies in front of the server.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::types::{Config, ListenerKind};
use super::units::{DurationOrOff, Parsed, optional};
use super::validator::Validator;
use crate::http::proxies::{ForwardedHeader, Proxies};
use crate::http::public_url::PublicUrl;

#[derive(Deserialize)]
pub(super) struct RawListen {
    #[serde(deserialize_with = "address")]
    pub(super) public: SocketAddr,
    #[serde(deserialize_with = "address")]
    pub(super) admin: SocketAddr,
    pub(super) backlog: u16,
    pub(super) wait: DurationOrOff,
    #[serde(deserialize_with = "optional")]
    pub(super) public_url: Option<PublicUrl>,
    pub(super) hosts: Vec<String>,
    trusted_proxies: Vec<Parsed<Network>>,
    forwarded: RawForwarded,
    proxy_protocol: bool,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RawForwarded {
    Off,
    XForwardedFor,
    Forwarded,
}

const TRUSTED: &str = "listen.trusted_proxies";

impl Validator<'_> {
    pub(super) fn listen(&self, listen: &RawListen) {
        let same = listen.public == listen.admin && listen.public.port() != 0;
        self.require(!same, "listen.admin", "must not be the same address as listen.public");
        self.require(listen.backlog > 0, "listen.backlog", "must be at least 1");
    }

    /// Checks that listeners beyond loopback require authentication.
    pub(super) fn guards(&self, config: &Config) {
        for (key, kind) in [("listen.public", ListenerKind::Public), ("listen.admin", ListenerKind::Admin)] {
            self.report(key, config.may_listen(kind, config.address(kind)).err());
        }
    }

    pub(super) fn proxies(&self, listen: &RawListen) -> Proxies {
        let forwarded = match listen.forwarded {
            RawForwarded::Off => None,
            RawForwarded::XForwardedFor => Some(ForwardedHeader::XForwardedFor),
            RawForwarded::Forwarded => Some(ForwardedHeader::Forwarded),
        };
        let trusted: Box<[_]> =
            listen.trusted_proxies.iter().map(|Parsed(Network(network))| *network).collect();
        let message = "needs listen.trusted_proxies";
        for (key, is_set) in
            [("listen.forwarded", forwarded.is_some()), ("listen.proxy_protocol", listen.proxy_protocol)]
        {
            self.require(!is_set || !trusted.is_empty(), key, message);
        }
        let is_used = forwarded.is_some() || listen.proxy_protocol;
        let message = "needs listen.forwarded or listen.proxy_protocol";
        self.require(trusted.is_empty() || is_used, TRUSTED, message);
        Proxies { trusted, forwarded, proxy_protocol: listen.proxy_protocol }
    }
}

/// Deserializes the address of a listener. Names are not resolved: the server should not depend on DNS, and a
/// name may have several addresses.
fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| {
        D::Error::custom(format_args!(
            "{text:?} is not an IP address and a port, such as \"127.0.0.1:8000\" or \"[::]:8000\""
        ))
    })
}

/// A network. A single address is a network with one address. An IPv4-mapped IPv6 network is converted to
/// IPv4, because the server uses this form for the addresses of peers.
struct Network(IpNet);

impl FromStr for Network {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const MAPPED: u8 = 96;
        let network = text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
        let network = network.ok_or("must be an address or a network, such as \"10.0.0.0/8\"")?;
        let mapped = match network {
            IpNet::V6(six) => six.prefix_len().checked_sub(MAPPED).zip(six.addr().to_ipv4_mapped()),
            IpNet::V4(_) => None,
        };
        let mapped = mapped.and_then(|(length, four)| Ipv4Net::new(four, length).ok());
        Ok(Self(mapped.map_or(network, IpNet::V4)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_parsed() {
        for (text, expected) in [
            ("10.0.0.0/8", Some("10.0.0.0/8")),
            ("10.0.0.1", Some("10.0.0.1/32")),
            ("::1", Some("::1/128")),
            ("2001:db8::/32", Some("2001:db8::/32")),
            ("::ffff:10.0.0.0/104", Some("10.0.0.0/8")),
            ("::ffff:10.0.0.1", Some("10.0.0.1/32")),
            ("10.0.0.0/33", None),
            ("localhost", None),
        ] {
            let network = text.parse().ok().map(|Network(network)| network);
            assert_eq!(network, expected.map(|network| network.parse().expect("a network")), "{text}");
        }
    }
}
