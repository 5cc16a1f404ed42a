//! Proxies in front of the server, and the addresses of the clients behind them. Without them, all clients of a proxy would be one
//! address, and share what one address may use.

mod forwarded;
mod proxy_protocol;

use std::net::IpAddr;

use hyper::header::HeaderMap;
use ipnet::IpNet;

pub use forwarded::ForwardedHeader;
#[cfg(feature = "fuzzing")]
pub(crate) use proxy_protocol::ProxyHeader;
pub(crate) use proxy_protocol::{BadProxyHeader, read_source};

/// Which proxies are believed, and what.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    /// Their networks. What comes from elsewhere is not believed.
    pub trusted: Box<[IpNet]>,
    /// The header that says whom a request is from; none: no header is believed.
    pub forwarded: Option<ForwardedHeader>,
    /// Every connection begins with a header of the PROXY protocol.
    pub proxy_protocol: bool,
}

impl Proxies {
    /// Whether this is the address of one of them, and not of a client.
    pub(crate) fn trust(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.trusted.iter().any(|network| network.contains(&address))
    }

    /// The address of the client whose request came from `peer` with these headers. Each proxy appends the address that it was asked from,
    /// and a client may begin with any it likes: so it is the right-most one that is not a proxy's.
    pub(crate) fn client_of(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let Some(forwarded) = self.forwarded else { return peer };
        let mut nearest = peer;
        for address in forwarded.addresses_from_the_right(headers) {
            if !self.trust(nearest) {
                break;
            }
            // A proxy that hides its client, or does not say it so that we understand, answers for it.
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
        proxies.client_of(peer.parse().expect("an address"), &headers).to_string()
    }

    #[test]
    fn the_right_most_address_that_is_no_proxy_is_the_clients() {
        let client = |peer, lines: &[&'static str]| client(ForwardedHeader::XForwardedFor, peer, lines);
        for (peer, lines, expected) in [
            ("10.0.0.1", &["192.0.2.7"][..], "192.0.2.7"),
            ("::ffff:10.0.0.1", &["192.0.2.7"], "192.0.2.7"),
            // What the client itself wrote is further left.
            ("10.0.0.1", &["127.0.0.1, 192.0.2.7"], "192.0.2.7"),
            ("10.0.0.1", &["127.0.0.1", "192.0.2.7"], "192.0.2.7"),
            // Through two proxies.
            ("10.0.0.1", &["8.8.8.8, 192.0.2.7, 10.1.1.1"], "192.0.2.7"),
            ("10.0.0.1", &["192.0.2.7,10.1.1.1", "10.2.2.2"], "192.0.2.7"),
            // With ports, which some append.
            ("10.0.0.1", &["192.0.2.7:4711"], "192.0.2.7"),
            ("10.0.0.1", &["[2001:bad::7]:4711"], "2001:bad::7"),
            ("10.0.0.1", &["2001:bad::7"], "2001:bad::7"),
            ("2001:db8::1", &["2001:bad::7"], "2001:bad::7"),
            // Nobody but proxies: the left-most of them asks for itself.
            ("10.0.0.1", &["10.1.1.1, 10.2.2.2"], "10.1.1.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            // No proxy: what it says of itself does not count.
            ("192.0.2.66", &["127.0.0.1"], "192.0.2.66"),
        ] {
            assert_eq!(client(peer, lines), expected, "{peer} {lines:?}");
        }
    }

    #[test]
    fn a_proxy_answers_for_what_it_does_not_name() {
        for line in ["unknown", "", "192.0.2.7, ", "192.0.2.7, x", "192.0.2.7 192.0.2.8"] {
            assert_eq!(client(ForwardedHeader::XForwardedFor, "10.0.0.1", &[line]), "10.0.0.1", "{line}");
        }
        for line in ["for=unknown", "for=_hidden", "proto=https", "for", "for=192.0.2.7, for=\"x\"", ""] {
            assert_eq!(client(ForwardedHeader::Forwarded, "10.0.0.1", &[line]), "10.0.0.1", "{line}");
        }
    }

    #[test]
    fn forwarded_is_read_as_rfc_7239_has_it() {
        for (lines, expected) in [
            (&["for=192.0.2.7"][..], "192.0.2.7"),
            (&["For=\"192.0.2.7:4711\";proto=https;by=10.0.0.1"], "192.0.2.7"),
            (&["for=\"[2001:bad::7]:4711\""], "2001:bad::7"),
            (&["for=127.0.0.1, for=192.0.2.7;host=a.example, for=10.1.1.1"], "192.0.2.7"),
            (&["for=127.0.0.1", "for=192.0.2.7"], "192.0.2.7"),
            (&["for=192.0.2.7;"], "192.0.2.7"),
            (&["proto=https; for=192.0.2.7"], "192.0.2.7"),
            (&["for=\"192.0.2.7:_hidden\""], "192.0.2.7"),
            // A client that leaves a quotation open hides nothing behind it.
            (&["for=\"127.0.0.1, for=192.0.2.7"], "192.0.2.7"),
            (&["for=127.0.0.1;x=\"\\\", for=192.0.2.7"], "192.0.2.7"),
            // What a proxy quotes is no address, though a client wrote it there.
            (&["for=192.0.2.7;host=\"x,for=127.0.0.1\""], "192.0.2.7"),
            (&["for=192.0.2.7;host=\"x;for=127.0.0.1\""], "192.0.2.7"),
            (&["for=192.0.2.7;host=\"x\\\",for=127.0.0.1\""], "192.0.2.7"),
        ] {
            assert_eq!(client(ForwardedHeader::Forwarded, "10.0.0.1", lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn no_byte_of_a_client_hides_what_its_proxy_appends() {
        let proxies = Proxies {
            trusted: ["10.0.0.0/8".parse().expect("a network")].into(),
            forwarded: Some(ForwardedHeader::XForwardedFor),
            proxy_protocol: false,
        };
        for own in [&b"\xff"[..], b"\xc3\xa9", b"\t", b"\"", b"1.2.3.4"] {
            let mut headers = HeaderMap::new();
            let line = [own, b", 192.0.2.7"].concat();
            headers.insert("x-forwarded-for", HeaderValue::from_bytes(&line).expect("a value"));
            let client = proxies.client_of("10.0.0.1".parse().expect("an address"), &headers);
            assert_eq!(client.to_string(), "192.0.2.7", "{own:?}");
        }
    }

    #[test]
    fn the_other_header_is_the_clients_own() {
        let proxies = Proxies {
            trusted: ["10.0.0.0/8".parse().expect("a network")].into(),
            forwarded: Some(ForwardedHeader::Forwarded),
            proxy_protocol: false,
        };
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", HeaderValue::from_static("127.0.0.1"));
        headers.insert("forwarded", HeaderValue::from_static("for=192.0.2.7"));
        let peer = "10.0.0.1".parse().expect("an address");
        assert_eq!(proxies.client_of(peer, &headers).to_string(), "192.0.2.7");
        let none = Proxies { forwarded: None, ..proxies };
        assert_eq!(none.client_of(peer, &headers), peer);
    }
}
