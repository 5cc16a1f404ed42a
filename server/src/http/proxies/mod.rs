//! Trusted proxies in front of the server, and the addresses of the clients behind them. Without this, all
//! clients behind a proxy would share the limits of a single address.

mod forwarded;
mod proxy_protocol;

use std::net::IpAddr;

use hyper::header::HeaderMap;
use ipnet::IpNet;

pub use forwarded::ForwardedHeader;
#[cfg(feature = "fuzzing")]
pub(crate) use proxy_protocol::ProxyHeader;
pub(crate) use proxy_protocol::{BadProxyHeader, read_source};

/// Trusted proxies, and the sources of client addresses.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    /// Networks of the trusted proxies. Client addresses from other peers are ignored.
    pub trusted: Box<[IpNet]>,
    /// Header that names the client's address. `None`: no header is trusted.
    pub forwarded: Option<ForwardedHeader>,
    /// Whether every connection begins with a header of the PROXY protocol.
    pub proxy_protocol: bool,
}

impl Proxies {
    /// Whether `address` belongs to a trusted proxy.
    pub(crate) fn is_trusted(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.trusted.iter().any(|network| network.contains(&address))
    }

    /// Returns the address of the client that sent the request received from `peer`. Each proxy appends its
    /// peer's address, and a client may send arbitrary addresses. Therefore, the client's address is the
    /// rightmost one that is not a proxy's.
    pub(crate) fn client_address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let Some(forwarded) = self.forwarded else { return peer };
        let mut nearest = peer;
        for address in forwarded.addresses_from_the_right(headers) {
            if !self.is_trusted(nearest) {
                break;
            }
            // If the proxy hides its client or writes an unknown format, use the proxy's address.
            let Some(address) = address else { break };
            nearest = address;
        }
        nearest
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn client(header: ForwardedHeader, peer: &str, lines: &[&'static str]) -> String {
        let trusted = ["10.0.0.0/8", "2001:db8::/32"].map(|network| network.parse().expect("a network"));
        let proxies = Proxies { trusted: trusted.into(), forwarded: Some(header), proxy_protocol: false };
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header.name(), HeaderValue::from_static(line));
        }
        proxies.client_address(peer.parse().expect("an address"), &headers).to_string()
    }

    #[test]
    fn the_client_is_the_rightmost_address_that_is_not_a_proxy() {
        let client = |peer, lines: &[&'static str]| client(ForwardedHeader::XForwardedFor, peer, lines);
        for (peer, lines, expected) in [
            ("10.0.0.1", &["192.0.2.7"][..], "192.0.2.7"),
            ("::ffff:10.0.0.1", &["192.0.2.7"], "192.0.2.7"),
            ("10.0.0.1", &["::ffff:192.0.2.7"], "192.0.2.7"),
            ("10.0.0.1", &["[::ffff:192.0.2.7]:4711"], "192.0.2.7"),
            // Entries written by the client are further to the left.
            ("10.0.0.1", &["127.0.0.1, 192.0.2.7"], "192.0.2.7"),
            ("10.0.0.1", &["127.0.0.1", "192.0.2.7"], "192.0.2.7"),
            // Requests through two proxies.
            ("10.0.0.1", &["8.8.8.8, 192.0.2.7, 10.1.1.1"], "192.0.2.7"),
            ("10.0.0.1", &["192.0.2.7,10.1.1.1", "10.2.2.2"], "192.0.2.7"),
            // Addresses with ports, which some proxies append.
            ("10.0.0.1", &["192.0.2.7:4711"], "192.0.2.7"),
            ("10.0.0.1", &["[2001:bad::7]:4711"], "2001:bad::7"),
            ("10.0.0.1", &["2001:bad::7"], "2001:bad::7"),
            ("2001:db8::1", &["2001:bad::7"], "2001:bad::7"),
            // Only proxies: the leftmost one is the client.
            ("10.0.0.1", &["10.1.1.1, 10.2.2.2"], "10.1.1.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            // The peer is not a proxy, so its header is ignored.
            ("192.0.2.66", &["127.0.0.1"], "192.0.2.66"),
        ] {
            assert_eq!(client(peer, lines), expected, "{peer} {lines:?}");
        }
    }

    #[test]
    fn an_unknown_client_counts_as_its_proxy() {
        for line in ["unknown", "", "192.0.2.7, ", "192.0.2.7, x", "192.0.2.7 192.0.2.8"] {
            assert_eq!(client(ForwardedHeader::XForwardedFor, "10.0.0.1", &[line]), "10.0.0.1", "{line}");
        }
        for line in ["for=unknown", "for=_hidden", "proto=https", "for", "for=192.0.2.7, for=\"x\"", ""] {
            assert_eq!(client(ForwardedHeader::Forwarded, "10.0.0.1", &[line]), "10.0.0.1", "{line}");
        }
    }

    #[test]
    fn forwarded_is_parsed_as_in_rfc_7239() {
        for (lines, expected) in [
            (&["for=192.0.2.7"][..], "192.0.2.7"),
            (&["For=\"192.0.2.7:4711\";proto=https;by=10.0.0.1"], "192.0.2.7"),
            (&["for=\"[2001:bad::7]:4711\""], "2001:bad::7"),
            (&["for=127.0.0.1, for=192.0.2.7;host=a.example, for=10.1.1.1"], "192.0.2.7"),
            (&["for=127.0.0.1", "for=192.0.2.7"], "192.0.2.7"),
            (&["for=192.0.2.7;"], "192.0.2.7"),
            (&["proto=https; for=192.0.2.7"], "192.0.2.7"),
            (&["for=\"192.0.2.7:_hidden\""], "192.0.2.7"),
            // A quotation left open by the client hides nothing that follows it.
            (&["for=\"127.0.0.1, for=192.0.2.7"], "192.0.2.7"),
            (&["for=127.0.0.1;x=\"\\\", for=192.0.2.7"], "192.0.2.7"),
            // Text that a proxy quotes is not an address, even if the client wrote one there.
            (&["for=192.0.2.7;host=\"x,for=127.0.0.1\""], "192.0.2.7"),
            (&["for=192.0.2.7;host=\"x;for=127.0.0.1\""], "192.0.2.7"),
            (&["for=192.0.2.7;host=\"x\\\",for=127.0.0.1\""], "192.0.2.7"),
        ] {
            assert_eq!(client(ForwardedHeader::Forwarded, "10.0.0.1", lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn client_bytes_cannot_hide_the_appended_address() {
        let proxies = Proxies {
            trusted: ["10.0.0.0/8".parse().expect("a network")].into(),
            forwarded: Some(ForwardedHeader::XForwardedFor),
            proxy_protocol: false,
        };
        for own in [&b"\xff"[..], b"\xc3\xa9", b"\t", b"\"", b"1.2.3.4"] {
            let mut headers = HeaderMap::new();
            let line = [own, b", 192.0.2.7"].concat();
            headers.insert("x-forwarded-for", HeaderValue::from_bytes(&line).expect("a value"));
            let client = proxies.client_address("10.0.0.1".parse().expect("an address"), &headers);
            assert_eq!(client.to_string(), "192.0.2.7", "{own:?}");
        }
    }

    #[test]
    fn the_other_header_is_ignored() {
        let proxies = Proxies {
            trusted: ["10.0.0.0/8".parse().expect("a network")].into(),
            forwarded: Some(ForwardedHeader::Forwarded),
            proxy_protocol: false,
        };
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", HeaderValue::from_static("127.0.0.1"));
        headers.insert("forwarded", HeaderValue::from_static("for=192.0.2.7"));
        let peer = "10.0.0.1".parse().expect("an address");
        assert_eq!(proxies.client_address(peer, &headers).to_string(), "192.0.2.7");
        let none = Proxies { forwarded: None, ..proxies };
        assert_eq!(none.client_address(peer, &headers), peer);
    }
}
