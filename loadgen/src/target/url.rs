//! The URL of the server under load, and the address that it resolves to.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;

use hyper::Uri;
use tokio::net::lookup_host;

/// A `ws://` or `http://` URL.
#[derive(Clone, Debug)]
pub(crate) struct ServerUrl {
    url: String,
    scheme: Scheme,
    /// What the Host header says.
    authority: String,
    /// And query.
    path: String,
    host: String,
    port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Ws,
    Http,
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ws => "ws",
            Self::Http => "http",
        })
    }
}

impl FromStr for ServerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|error| format!("not a URL: {error}"))?;
        let scheme = match uri.scheme_str() {
            Some("ws") => Scheme::Ws,
            Some("http") => Scheme::Http,
            _ => return Err("must begin with ws:// or http://".to_owned()),
        };
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err("names no host".to_owned());
        }
        let port = uri.port_u16().unwrap_or(80);
        let authority =
            uri.port().map_or_else(|| uri_host(&uri), |port| format!("{}:{port}", uri_host(&uri)));
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { url: uri.to_string(), scheme, authority, path, host, port })
    }
}

impl ServerUrl {
    pub(crate) fn as_str(&self) -> &str {
        &self.url
    }

    /// The first address of the host: every connection goes there.
    pub(crate) async fn resolve(&self) -> io::Result<SocketAddr> {
        let mut addresses = lookup_host((self.host.as_str(), self.port)).await?;
        addresses.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the host has no address"))
    }

    pub(crate) fn scheme(&self) -> Scheme {
        self.scheme
    }

    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// What to request, with this in its query as well. Whatever the server gave out to be sent here is safe in URLs.
    pub(crate) fn path_with(&self, query: &str) -> String {
        let separator = match (query.is_empty(), self.path.contains('?')) {
            (true, _) => "",
            (false, true) => "&",
            (false, false) => "?",
        };
        format!("{}{separator}{query}", self.path)
    }
}

fn uri_host(uri: &Uri) -> String {
    uri.host().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> ServerUrl {
        url.parse().expect("the URL is good")
    }

    #[test]
    fn parses_host_and_port() {
        let plain = target("ws://example.test/ws");
        assert_eq!((plain.host.as_str(), plain.port), ("example.test", 80));
        let six = target("ws://[::1]:8000/ws");
        assert_eq!((six.host.as_str(), six.port), ("::1", 8000));
        assert_eq!((plain.authority(), six.authority()), ("example.test", "[::1]:8000"));
    }

    #[test]
    fn refuses_what_it_cannot_speak() {
        for bad in ["https://example.test/ws", "wss://example.test/ws", "/ws", "ws://", "not a url"] {
            assert!(bad.parse::<ServerUrl>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_query_is_extended() {
        let ask = |url| target(url).path_with("resume=s_1.secret&seq=57");
        assert_eq!(ask("ws://h:1/ws"), "/ws?resume=s_1.secret&seq=57");
        assert_eq!(ask("ws://h:1"), "/?resume=s_1.secret&seq=57");
        assert_eq!(ask("ws://h:1/ws?token=a"), "/ws?token=a&resume=s_1.secret&seq=57");
        assert_eq!(target("ws://h:1/ws?token=a").path_with(""), "/ws?token=a");
    }
}
