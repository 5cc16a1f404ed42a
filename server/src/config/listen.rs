//! `[listen]`: the addresses, and the proxies in front of the server.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};
use serde::Deserialize;

use super::raw::{RawListen, Validator};
use super::{ConfigError, ListenerKind};
use crate::admin::PublicUrl;
use crate::auth::Auth;
use crate::backend::BackendSettings;
use crate::proxies::{ForwardedHeader, Proxies};

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RawForwarded {
    Off,
    XForwardedFor,
    Forwarded,
}

const TRUSTED: &str = "listen.trusted_proxies";

impl Validator<'_> {
    pub(super) fn listen(
        &self,
        listen: &RawListen,
        auth: &Auth,
        backend: Option<&BackendSettings>,
        insecure: bool,
    ) -> Result<(), ConfigError> {
        for (key, kind, address) in [
            ("listen.public", ListenerKind::Public, listen.public),
            ("listen.admin", ListenerKind::Admin, listen.admin),
        ] {
            let may = kind.may_listen(address, auth, backend, insecure);
            may.or_else(|message| self.refuse(key, message))?;
        }
        let same = listen.public == listen.admin && listen.public.port() != 0;
        self.require(!same, "listen.admin", "must not be the same address as listen.public")?;
        self.require(listen.backlog > 0, "listen.backlog", "must be at least 1")
    }

    pub(super) fn public_url(&self, text: &str) -> Result<Option<PublicUrl>, ConfigError> {
        (!text.is_empty()).then(|| self.require_ok("listen.public_url", PublicUrl::parse(text))).transpose()
    }

    pub(super) fn proxies(&self, listen: &RawListen) -> Result<Proxies, ConfigError> {
        let forwarded = match listen.forwarded {
            RawForwarded::Off => None,
            RawForwarded::XForwardedFor => Some(ForwardedHeader::XForwardedFor),
            RawForwarded::Forwarded => Some(ForwardedHeader::Forwarded),
        };
        let mut trusted = Vec::new();
        for (index, text) in listen.trusted_proxies.iter().enumerate() {
            let Some(network) = network(text) else {
                let message = "must be an address or a network, such as \"10.0.0.0/8\"";
                return self.refuse(&format!("{TRUSTED}[{index}]"), message);
            };
            trusted.push(network);
        }
        let message = "needs listen.trusted_proxies";
        for (key, is_set) in
            [("listen.forwarded", forwarded.is_some()), ("listen.proxy_protocol", listen.proxy_protocol)]
        {
            self.require(!is_set || !trusted.is_empty(), key, message)?;
        }
        let is_used = forwarded.is_some() || listen.proxy_protocol;
        let message = "needs listen.forwarded or listen.proxy_protocol";
        self.require(trusted.is_empty() || is_used, TRUSTED, message)?;
        Ok(Proxies { trusted: trusted.into(), forwarded, proxy_protocol: listen.proxy_protocol })
    }
}

/// Parses a network. A single address is a network with one address. An IPv4-mapped IPv6 network is converted
/// to IPv4, because the server uses this form for the addresses of peers.
fn network(text: &str) -> Option<IpNet> {
    const MAPPED: u8 = 96;
    let network = text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))?;
    let mapped = match network {
        IpNet::V6(six) if six.prefix_len() >= MAPPED => {
            six.addr().to_ipv4_mapped().map(|four| (four, six.prefix_len() - MAPPED))
        }
        _ => None,
    };
    match mapped {
        Some((four, length)) => Ipv4Net::new(four, length).ok().map(IpNet::V4),
        None => Some(network),
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
            assert_eq!(network(text), expected.map(|network| network.parse().expect("a network")), "{text}");
        }
    }
}
