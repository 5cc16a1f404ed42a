//! The URL of the server under load, and the address that it resolves to.

use std::io;
use std::net::SocketAddr;
use std::str::FromStr;

use hyper::Uri;
use strum::Display;

use super::host_port::HostPort;

/// A `ws://` or `http://` URL.
#[derive(Clone, Debug)]
pub struct ServerUrl {
    url: String,
    scheme: Scheme,
    /// What the Host header says.
    authority: String,
    /// And query.
    path: String,
    host_port: HostPort,
}

#[derive(Clone, Copy, Debug, Display, PartialEq, Eq)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Scheme {
    Ws,
    Http,
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

    /// The first address of the host: every connection goes there.
    pub(crate) async fn resolve(&self) -> io::Result<SocketAddr> {
        self.host_port.resolve().await
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

impl ServerUrl {
    /// The same without this parameter of its own query.
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
        url.parse().expect("the URL is good")
    }

    #[test]
    fn the_authority_is_as_it_was_written() {
        let plain = target("ws://example.test/ws");
        let six = target("ws://[::1]:8000/ws");
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

    #[test]
    fn a_parameter_is_left_out() {
        let ask = |url| target(url).path_without("channels", "seq=1");
        assert_eq!(ask("http://h/poll?channels=a,b"), "/poll?seq=1");
        assert_eq!(ask("http://h/poll?channels=a&channel=b"), "/poll?channel=b&seq=1");
        assert_eq!(ask("http://h/poll"), "/poll?seq=1");
    }
}
