//! The server under load: its URL, and the address that URL resolves to.

use std::io;
use std::net::SocketAddr;
use std::str::FromStr;

use hyper::Uri;
use tokio::net::lookup_host;

use crate::client::Ticket;

/// A `ws://` URL.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    url: String,
    /// What the Host header says.
    authority: String,
    path: String,
    host: String,
    port: u16,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|error| format!("not a URL: {error}"))?;
        if uri.scheme_str() != Some("ws") {
            return Err("must begin with ws://".to_owned());
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err("names no host".to_owned());
        }
        let port = uri.port_u16().unwrap_or(80);
        let authority =
            uri.port().map_or_else(|| uri_host(&uri), |port| format!("{}:{port}", uri_host(&uri)));
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { url: uri.to_string(), authority, path, host, port })
    }
}

impl Target {
    pub(crate) fn as_str(&self) -> &str {
        &self.url
    }

    /// The first address of the host: every connection goes there.
    pub(crate) async fn resolve(&self) -> io::Result<SocketAddr> {
        let mut addresses = lookup_host((self.host.as_str(), self.port)).await?;
        addresses.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the host has no address"))
    }

    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// What to request. A resume token goes into the query as the server gave it: tokens are safe in URLs.
    pub(crate) fn path(&self, resume: Option<&Ticket>) -> String {
        let Some(Ticket { token, seq }) = resume else { return self.path.clone() };
        let separator = if self.path.contains('?') { '&' } else { '?' };
        format!("{}{separator}resume={token}&seq={seq}", self.path)
    }
}

fn uri_host(uri: &Uri) -> String {
    uri.host().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Target {
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
        for bad in ["http://example.test/ws", "wss://example.test/ws", "/ws", "ws://", "not a url"] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }

    #[test]
    fn resuming_extends_the_query() {
        let ticket = Ticket { token: "s_1.secret".into(), seq: 57 };
        let ask = |url| target(url).path(Some(&ticket));
        assert_eq!(ask("ws://h:1/ws"), "/ws?resume=s_1.secret&seq=57");
        assert_eq!(ask("ws://h:1"), "/?resume=s_1.secret&seq=57");
        assert_eq!(ask("ws://h:1/ws?token=a"), "/ws?token=a&resume=s_1.secret&seq=57");
    }
}
