//! URLs of servers and of admin listeners.

use std::io;
use std::net::SocketAddr;
use std::str::FromStr;

use http::Uri;
use strum::Display;
use tokio::net::lookup_host;

/// URL of the server under load: `ws://`, `http://`, or either one with TLS.
#[derive(Clone, Debug)]
pub struct ServerUrl {
    pub uri: Uri,
    scheme: UrlScheme,
    pub is_tls: bool,
    /// Without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Scheme of a URL, without the `s` that stands for TLS.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq)]
#[strum(serialize_all = "lowercase")]
pub enum UrlScheme {
    Ws,
    Http,
}

impl FromStr for ServerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|error| format!("not a URL: {error}"))?;
        let (scheme, is_tls) = match uri.scheme_str() {
            Some("ws") => (UrlScheme::Ws, false),
            Some("wss") => (UrlScheme::Ws, true),
            Some("http") => (UrlScheme::Http, false),
            Some("https") => (UrlScheme::Http, true),
            _ => return Err("must begin with ws://, wss://, http:// or https://".to_owned()),
        };
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err("the URL has no host".to_owned());
        }
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let url = Self { uri, scheme, is_tls, host, port };
        if url.authority().contains('@') {
            return Err("user names and passwords are not supported: see --token".to_owned());
        }
        if url.uri.port().is_none() && url.authority().len() > url.uri.host().map_or(0, str::len) {
            return Err("the port must be from 0 to 65535".to_owned());
        }
        Ok(url)
    }
}

impl ServerUrl {
    /// Resolves the host to its first address, to which all connections go.
    pub async fn resolve(&self) -> io::Result<SocketAddr> {
        let mut addresses = lookup_host((self.host.as_str(), self.port)).await?;
        addresses.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the host has no address"))
    }

    pub fn scheme(&self) -> UrlScheme {
        self.scheme
    }

    /// Returns the value of the Host header.
    pub fn authority(&self) -> &str {
        self.uri.authority().map_or("", |it| it.as_str())
    }

    /// Returns path and query.
    fn target(&self) -> &str {
        self.uri.path_and_query().map_or("/", |it| it.as_str())
    }

    /// Returns the request target with `query` added to the URL's own query. Values that the server issued
    /// for this purpose are safe in URLs and are not escaped.
    pub fn path_with(&self, query: &str) -> String {
        let separator = match self.uri.query() {
            _ if query.is_empty() => "",
            Some(_) => "&",
            None => "?",
        };
        format!("{}{separator}{query}", self.target())
    }

    /// Returns the request target with `query` added, but without this parameter of the URL's own query.
    pub(crate) fn path_without(&self, parameter: &str, query: &str) -> String {
        let own = self.uri.query().unwrap_or_default().split('&');
        let kept = own.filter(|pair| !pair.is_empty() && pair.split('=').next() != Some(parameter));
        format!("{}?{}", self.uri.path(), kept.chain([query]).collect::<Vec<_>>().join("&"))
    }
}

/// `http://` or `https://` URL of an admin listener. Its path precedes the path of every call.
#[derive(Clone, Debug)]
pub struct AdminUrl(pub ServerUrl);

impl FromStr for AdminUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let server: ServerUrl = text.parse()?;
        match server.scheme {
            UrlScheme::Http => Ok(Self(server)),
            UrlScheme::Ws => Err("must begin with http:// or https://".to_owned()),
        }
    }
}

impl AdminUrl {
    /// Returns host and port, even if the URL has no port.
    pub fn address(&self) -> (&str, u16) {
        (&self.0.host, self.0.port)
    }

    /// Returns the request target for a call.
    pub(crate) fn path(&self, call: &str) -> String {
        format!("{}{call}", self.0.target().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: &str) -> ServerUrl {
        url.parse().expect("the URL is valid")
    }

    #[test]
    fn authorities_are_kept_as_written_and_ports_have_defaults() {
        for (url, authority, host, port) in [
            ("ws://example.test/ws", "example.test", "example.test", 80),
            ("wss://example.test/ws", "example.test", "example.test", 443),
            ("https://[::1]:8000", "[::1]:8000", "::1", 8000),
        ] {
            let url = server(url);
            assert_eq!((url.authority(), &*url.host, url.port), (authority, host, port));
        }
        for bad in ["ftp://h/ws", "/ws", "ws://", "not a url", "ws://me@h", "ws://h:65536", "ws://[::1]:x"] {
            assert!(bad.parse::<ServerUrl>().is_err(), "{bad}");
        }
    }

    #[test]
    fn queries_are_extended_and_a_parameter_is_left_out() {
        for (url, with, without) in [
            ("http://h:1", "/?seq=1", "/?seq=1"),
            ("http://h/poll?channels=a,b", "/poll?channels=a,b&seq=1", "/poll?seq=1"),
            ("http://h/p?channels=a&channel=b", "/p?channels=a&channel=b&seq=1", "/p?channel=b&seq=1"),
        ] {
            assert_eq!(server(url).path_with("seq=1"), with);
            assert_eq!(server(url).path_without("channels", "seq=1"), without);
        }
        assert_eq!(server("ws://h:1/ws?token=a").path_with(""), "/ws?token=a");
    }

    #[test]
    fn admin_calls_are_relative_to_the_url() {
        for (url, address, path) in [
            ("https://example.test/", ("example.test", 443), "/api/publish"),
            ("http://[::1]:8001/encke/", ("::1", 8001), "/encke/api/publish"),
        ] {
            let url: AdminUrl = url.parse().expect("the URL is valid");
            assert_eq!((url.address(), url.path("/api/publish").as_str()), (address, path));
        }
        assert!("ws://127.0.0.1:8001".parse::<AdminUrl>().is_err());
    }
}
