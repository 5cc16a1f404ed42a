use crate::auth::HostPort;

/// Where pages and programs reach the public listener from outside: its scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublicUrl {
    /// As the operator has written it, without a slash at the end.
    text: Box<str>,
    is_secure: bool,
    /// Where the host begins in `text`.
    authority_at: usize,
}

/// Why something is no such URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadPublicUrl {
    #[error("must begin with ws://, wss://, http:// or https://, as \"wss://ws.example\" does")]
    Scheme,
    #[error("must have no path, no query and no fragment: paths such as /ws are added to it")]
    Path,
    #[error("must name no user")]
    User,
    #[error("must have a host, and a port or none, as in \"wss://ws.example\" or \"ws://127.0.0.1:8000\"")]
    Host,
}

/// Each scheme, and whether it is of TLS.
const SCHEMES: [(&str, bool); 4] = [("ws", false), ("wss", true), ("http", false), ("https", true)];

impl PublicUrl {
    /// Reads one.
    ///
    /// # Errors
    /// [`BadPublicUrl`].
    pub(crate) fn parse(text: &str) -> Result<Self, BadPublicUrl> {
        let (scheme, rest) = text.split_once("://").ok_or(BadPublicUrl::Scheme)?;
        let known = SCHEMES.iter().find(|(name, _)| scheme.eq_ignore_ascii_case(name));
        let (_, is_secure) = *known.ok_or(BadPublicUrl::Scheme)?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#']) {
            return Err(BadPublicUrl::Path);
        }
        if authority.contains('@') {
            return Err(BadPublicUrl::User);
        }
        if !is_plain(authority) || authority.ends_with(':') {
            return Err(BadPublicUrl::Host);
        }
        let text = text.strip_suffix('/').unwrap_or(text);
        Ok(Self { text: text.into(), is_secure, authority_at: text.len() - authority.len() })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// What a page may connect to that is to reach it: by WebSocket, and by requests.
    pub(crate) fn origins(&self) -> String {
        origins(&self.text[self.authority_at..], self.is_secure)
    }
}

/// The two origins of a host and its port, if it has one: of WebSockets, and of requests.
pub(crate) fn origins(authority: &str, is_secure: bool) -> String {
    let (socket, request) = if is_secure { ("wss", "https") } else { ("ws", "http") };
    format!("{socket}://{authority} {request}://{authority}")
}

/// Whether it is a host with a port, or none, of nothing but what names, numbers and addresses are written with. It is to stand in a list
/// of origins, where `;`, `,` and `*` would mean more than a host.
fn is_plain(authority: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    authority.bytes().all(is_plain) && HostPort::parse(authority).is_some()
}

/// The host of a `Host` header, if it may stand in a list of origins.
pub(crate) fn plain_host(host: &str) -> Option<&str> {
    if is_plain(host) { HostPort::parse(host).map(|host| host.host()) } else { None }
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
            let url = PublicUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((url.as_str(), &*url.origins()), (shown, origins), "{text}");
        }
        for (text, error) in [
            ("", BadPublicUrl::Scheme),
            ("ws.example", BadPublicUrl::Scheme),
            ("//ws.example", BadPublicUrl::Scheme),
            ("ftp://ws.example", BadPublicUrl::Scheme),
            ("javascript://ws.example", BadPublicUrl::Scheme),
            ("wss:ws.example", BadPublicUrl::Scheme),
            ("wss://ws.example/ws", BadPublicUrl::Path),
            ("wss://ws.example//", BadPublicUrl::Path),
            ("wss://ws.example?a=b", BadPublicUrl::Path),
            ("wss://ws.example/#", BadPublicUrl::Path),
            ("wss://user@ws.example", BadPublicUrl::User),
            ("wss://user:secret@ws.example", BadPublicUrl::User),
            ("wss://", BadPublicUrl::Host),
            ("wss:///", BadPublicUrl::Host),
            ("wss://:8000", BadPublicUrl::Host),
            ("wss://ws.example:", BadPublicUrl::Host),
            ("wss://ws.example:port", BadPublicUrl::Host),
            ("wss://ws.example:65536", BadPublicUrl::Host),
            ("wss://*", BadPublicUrl::Host),
            ("wss://a;script-src", BadPublicUrl::Host),
            ("wss://a,b", BadPublicUrl::Host),
            ("wss://a b", BadPublicUrl::Host),
            ("wss://é", BadPublicUrl::Host),
        ] {
            assert_eq!(PublicUrl::parse(text), Err(error), "{text}");
        }
    }

    /// Else whoever names a host could write the page's policy.
    #[test]
    fn no_host_says_more_than_where_it_is() {
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
