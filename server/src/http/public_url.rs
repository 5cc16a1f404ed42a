use std::str::FromStr;

use crate::auth::HostPort;

/// External URL of the public listener: scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublicUrl {
    /// URL as configured, without a trailing slash.
    text: Box<str>,
    /// Origins that a page must be allowed to connect to, for WebSockets and for HTTP requests.
    origins: Box<str>,
}

/// Why a string is not a valid external URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidPublicUrl {
    #[error("must begin with ws://, wss://, http:// or https://, as \"wss://ws.example\" does")]
    Scheme,
    #[error("must have no path, query or fragment: paths such as /ws are appended to it")]
    Path,
    #[error("must not contain a user name")]
    User,
    #[error("must have a host and an optional port, as in \"wss://ws.example\" or \"ws://127.0.0.1:8000\"")]
    Host,
}

/// Accepted schemes, and whether they use TLS.
const SCHEMES: [(&str, bool); 4] = [("ws", false), ("wss", true), ("http", false), ("https", true)];

impl FromStr for PublicUrl {
    type Err = InvalidPublicUrl;

    fn from_str(text: &str) -> Result<Self, InvalidPublicUrl> {
        let (scheme, rest) = text.split_once("://").ok_or(InvalidPublicUrl::Scheme)?;
        let known = SCHEMES.iter().find(|(name, _)| scheme.eq_ignore_ascii_case(name));
        let (_, is_secure) = *known.ok_or(InvalidPublicUrl::Scheme)?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#']) {
            return Err(InvalidPublicUrl::Path);
        }
        if authority.contains('@') {
            return Err(InvalidPublicUrl::User);
        }
        if !is_plain(authority) || authority.ends_with(':') {
            return Err(InvalidPublicUrl::Host);
        }
        let text = text.strip_suffix('/').unwrap_or(text);
        Ok(Self { text: text.into(), origins: origins(authority, is_secure).into() })
    }
}

impl PublicUrl {
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn origins(&self) -> &str {
        &self.origins
    }
}

/// Returns the two origins of a host with an optional port: one for WebSockets and one for HTTP requests.
pub(crate) fn origins(authority: &str, is_secure: bool) -> String {
    let (socket, request) = if is_secure { ("wss", "https") } else { ("ws", "http") };
    format!("{socket}://{authority} {request}://{authority}")
}

/// Returns whether this is a host with an optional port and consists only of characters that occur in host
/// names and IP addresses. In a list of origins, `;`, `,` and `*` would have other meanings.
fn is_plain(authority: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    authority.bytes().all(is_plain) && HostPort::parse(authority).is_some()
}

/// Returns the host name in a `Host` header, if the header is safe in a list of origins.
pub(crate) fn plain_host(host: &str) -> Option<&str> {
    if is_plain(host) { HostPort::parse(host).map(|host| host.host) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_scheme_a_host_and_nothing_more() {
        for (text, shown, origins) in [
            ("ws://127.0.0.1:8000", "ws://127.0.0.1:8000", "ws://127.0.0.1:8000 http://127.0.0.1:8000"),
            ("wss://ws.example/", "wss://ws.example", "wss://ws.example https://ws.example"),
            ("http://encke:8000/", "http://encke:8000", "ws://encke:8000 http://encke:8000"),
            ("HTTPS://WS.Example", "HTTPS://WS.Example", "wss://WS.Example https://WS.Example"),
            ("ws://[::1]:8000", "ws://[::1]:8000", "ws://[::1]:8000 http://[::1]:8000"),
        ] {
            let url = text.parse::<PublicUrl>().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((url.as_str(), url.origins()), (shown, origins), "{text}");
        }
        for (text, error) in [
            ("", InvalidPublicUrl::Scheme),
            ("ws.example", InvalidPublicUrl::Scheme),
            ("//ws.example", InvalidPublicUrl::Scheme),
            ("ftp://ws.example", InvalidPublicUrl::Scheme),
            ("javascript://ws.example", InvalidPublicUrl::Scheme),
            ("wss:ws.example", InvalidPublicUrl::Scheme),
            ("wss://ws.example/ws", InvalidPublicUrl::Path),
            ("wss://ws.example//", InvalidPublicUrl::Path),
            ("wss://ws.example?a=b", InvalidPublicUrl::Path),
            ("wss://ws.example/#", InvalidPublicUrl::Path),
            ("wss://user@ws.example", InvalidPublicUrl::User),
            ("wss://user:secret@ws.example", InvalidPublicUrl::User),
            ("wss://", InvalidPublicUrl::Host),
            ("wss:///", InvalidPublicUrl::Host),
            ("wss://:8000", InvalidPublicUrl::Host),
            ("wss://ws.example:", InvalidPublicUrl::Host),
            ("wss://ws.example:port", InvalidPublicUrl::Host),
            ("wss://ws.example:65536", InvalidPublicUrl::Host),
            ("wss://*", InvalidPublicUrl::Host),
            ("wss://a;script-src", InvalidPublicUrl::Host),
            ("wss://a,b", InvalidPublicUrl::Host),
            ("wss://a b", InvalidPublicUrl::Host),
            ("wss://é", InvalidPublicUrl::Host),
        ] {
            assert_eq!(text.parse::<PublicUrl>(), Err(error), "{text}");
        }
    }

    /// Accepting such hosts would let a client inject directives into the page's policy.
    #[test]
    fn hosts_cannot_inject_policy() {
        for (host, found) in [
            ("encke:8001", Some("encke")),
            ("127.0.0.1", Some("127.0.0.1")),
            ("[::1]:8001", Some("[::1]")),
            ("a;script-src", None),
            ("*", None),
            ("*.example", None),
            ("a,b", None),
            ("'self'", None),
            ("a b", None),
            ("a/b", None),
            ("", None),
        ] {
            assert_eq!(plain_host(host), found, "{host}");
        }
    }
}
