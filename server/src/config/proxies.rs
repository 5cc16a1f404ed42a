//! Of `[listen]`: what stands in front of the server.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::Deserialize;

use super::ConfigError;
use super::raw::{Checks, Listen};
use crate::proxies::{ForwardedHeader, Proxies};

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RawForwarded {
    Off,
    XForwardedFor,
    Forwarded,
}

const TRUSTED: &str = "listen.trusted_proxies";

impl Checks<'_> {
    pub(super) fn proxies(&self, listen: &Listen) -> Result<Proxies, ConfigError> {
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
        let message = "needs listen.trusted_proxies: whom to believe";
        for (key, is_set) in
            [("listen.forwarded", forwarded.is_some()), ("listen.proxy_protocol", listen.proxy_protocol)]
        {
            self.require(!is_set || !trusted.is_empty(), key, message)?;
        }
        let is_used = forwarded.is_some() || listen.proxy_protocol;
        let message = "needs listen.forwarded or listen.proxy_protocol: what to believe";
        self.require(trusted.is_empty() || is_used, TRUSTED, message)?;
        Ok(Proxies { trusted: trusted.into(), forwarded, proxy_protocol: listen.proxy_protocol })
    }
}

/// An address is a network of one.
fn network(text: &str) -> Option<IpNet> {
    let address = || text.parse::<IpAddr>().ok().map(|address| IpNet::from(address.to_canonical()));
    text.parse().ok().or_else(address)
}
