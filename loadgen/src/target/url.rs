//! URL of the server under load, and the address to which it resolves.

use std::io;
use std::net::SocketAddr;
use std::str::FromStr;

use hyper::Uri;
use strum::Display;

use super::host_port::HostPort;

/// `ws://` or `http://` URL of the server under load.
#[derive(Clone, Debug)]
pub struct ServerUrl {
    url: String,
    scheme: UrlScheme,
    /// Value of the Host header.
    authority: String,
    /// Path and query.
    path: String,
    host_port: HostPort,
}

#[derive(Clone, Copy, Debug, Display, PartialEq, Eq)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum UrlScheme {
    Ws,
    Http,
}

impl FromStr for ServerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|error| format!("not a URL: {error}"))?;
        let scheme = match uri.scheme_str() {
            Some("ws") => UrlScheme::Ws,
            Some("http") => UrlScheme::Http,
            _ => return Err("must begin with ws:// or http://".to_owned()),
        };
        let host_port = HostPort::of(&uri)?;
        let authority = uri.authority().map_or("", |it| it.as_str());
        let authority = authority.rsplit_once('@').map_or(authority, |(_, it)| it).to_owned();
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { url: uri.to_string(), scheme, authority, path, host_port })
    }
}

impl ServerUrl {
    pub(crate) fn as_str(&self) -> &str {
        &self.url
    }

    /// Resolves the host to its first address, to which all connections go.
    pub(crate) async fn resolve(&self) -> io::Result<SocketAddr> {
        self.host_port.resolve().await
    }

    pub(crate) fn scheme(&self) -> UrlScheme {
        self.scheme
    }

    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the request target with `query` added to the URL's own query. Values that the server issued
    /// for this purpose are safe in URLs and are not escaped.
    pub(crate) fn path_with(&self, query: &str) -> String {
        let separator = match (query.is_empty(), self.path.contains('?')) {
            (true, _) => "",
            (false, true) => "&",
            (false, false) => "?",
        };
        format!("{}{separator}{query}", self.path)
    }
}

impl ServerUrl {
    /// Returns the request target with `query` added, but without this parameter of the URL's own query.
    pub(crate) fn path_without(&self, parameter: &str, query: &str) -> String {
        let (path, own) = self.path.split_once('?').unwrap_or((&self.path, ""));
        let name_of = |pair: &str| pair.split('=').next().unwrap_or_default().to_owned();
        let kept = own.split('&').filter(|pair| !pair.is_empty() && name_of(pair) != parameter);
        let all: Vec<&str> = kept.chain([query]).collect();
        format!("{path}?{}", all.join("&"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> ServerUrl {
        url.parse().expect("the URL is valid")
    }

    #[test]
    fn the_authority_is_kept_as_written() {
        let plain = target("ws://example.test/ws");
        let six = target("ws://[::1]:8000/ws");
        assert_eq!((plain.authority(), six.authority()), ("example.test", "[::1]:8000"));
    }

    #[test]
    fn unsupported_urls_are_rejected() {
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

    #[test]
    fn a_parameter_is_left_out() {
        let ask = |url| target(url).path_without("channels", "seq=1");
        assert_eq!(ask("http://h/poll?channels=a,b"), "/poll?seq=1");
        assert_eq!(ask("http://h/poll?channels=a&channel=b"), "/poll?channel=b&seq=1");
        assert_eq!(ask("http://h/poll"), "/poll?seq=1");
    }
}
