use super::{ClientText, HostPort};

/// Entry that allows every web page.
const ANY: &str = "*";

/// Web pages that may connect. A browser lets any page open a WebSocket to any server, with the visitor's
/// cookies and from within the visitor's network. It sends the page's origin, but only the server can decide
/// whether that origin may connect.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    any: bool,
    /// Listed origins, as browsers send them.
    listed: Box<[Box<str>]>,
}

/// Error for a page whose origin may not connect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the origin `{0}` is not in auth.origins")]
pub(crate) struct RefusedOrigin(ClientText);

/// Error for a string that is not a valid origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be an origin such as \"https://app.example\" or \"http://app.example:8080\", without a path, or \"*\""
)]
pub struct BadOrigin;

impl Origins {
    /// Checks whether `text` is a valid entry of the list.
    ///
    /// # Errors
    /// [`BadOrigin`].
    pub fn check(text: &str) -> Result<(), BadOrigin> {
        let exact = || !text.contains('*') && Origin::parse(&normalize(text)).is_some();
        if text == ANY || exact() { Ok(()) } else { Err(BadOrigin) }
    }

    /// Creates the list. Its entries must have passed [`Self::check`].
    #[must_use]
    pub fn new(list: &[String]) -> Self {
        Self {
            any: list.iter().any(|origin| origin == ANY),
            listed: list.iter().map(|origin| normalize(origin).into()).collect(),
        }
    }

    /// Checks the `Origin` of a request with this `Host`, like [`allows`](Self::allows). An origin that is not valid
    /// UTF-8 is allowed only by `"*"`.
    ///
    /// # Errors
    /// [`RefusedOrigin`].
    pub(crate) fn check_request(
        &self,
        origin: Option<&[u8]>,
        host: Option<&str>,
        unguarded: bool,
    ) -> Result<(), RefusedOrigin> {
        let Some(bytes) = origin else { return Ok(()) };
        let text = str::from_utf8(bytes).unwrap_or_default();
        if self.allows(Some(text), host, unguarded) {
            Ok(())
        } else {
            Err(RefusedOrigin(ClientText::new(bytes)))
        }
    }

    /// Whether to accept a request with this `Origin` and this `Host`.
    ///
    /// A request without an origin does not come from a browser. An origin must be listed or be the server's
    /// own, or page and server must both be on the visitor's own machine. The origin `null`, sent by pages
    /// that hide their origin, meets none of these conditions.
    ///
    /// A host name proves little: a page's owner can rebind the page's name to the visitor's own machine at
    /// any time. `unguarded` means that nothing else would keep out such a page; in that case, the host must
    /// be an address or `localhost`.
    #[must_use]
    pub fn allows(&self, origin: Option<&str>, host: Option<&str>, unguarded: bool) -> bool {
        let Some(origin) = origin else { return true };
        if self.any || self.listed.iter().any(|listed| listed.eq_ignore_ascii_case(origin)) {
            return true;
        }
        let (Some(origin), Some(host)) = (Origin::parse(origin), host.and_then(HostPort::parse)) else {
            return false;
        };
        (origin.is_of(&host) && !(unguarded && host.is_name()))
            || (origin.authority.is_loopback() && host.is_loopback())
    }
}

/// Returns an origin as browsers send it: in lower case, without the scheme's default port and without the
/// slash at the end of the page's address.
fn normalize(origin: &str) -> String {
    let origin = origin.strip_suffix('/').unwrap_or(origin).to_lowercase();
    let default = Origin::parse(&origin).and_then(|parsed| {
        let port = parsed.default_port.filter(|port| parsed.authority.port == Some(*port))?;
        origin.strip_suffix(&format!(":{port}")).map(ToOwned::to_owned)
    });
    default.unwrap_or(origin)
}

/// Parsed `Origin`: `scheme://host[:port]`.
struct Origin<'a> {
    authority: HostPort<'a>,
    default_port: Option<u16>,
}

impl<'a> Origin<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (scheme, authority) = text.split_once("://")?;
        let mut letters = scheme.bytes();
        let valid = letters.next().is_some_and(|first| first.is_ascii_alphabetic())
            && letters.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        let default_port = match scheme.to_ascii_lowercase().as_str() {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        };
        // Browsers omit the colon if there is no port.
        let authority = HostPort::parse(authority).filter(|_| !authority.ends_with(':'))?;
        valid.then_some(Self { authority, default_port })
    }

    /// Whether this is the origin of a page loaded from `host`. A missing port is the scheme's default port.
    fn is_of(&self, host: &HostPort<'_>) -> bool {
        let port = |of: &HostPort<'_>| of.port.or(self.default_port);
        self.default_port.is_some()
            && port(&self.authority) == port(host)
            && self.authority.host.eq_ignore_ascii_case(host.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins(list: &[&str]) -> Origins {
        Origins::new(&list.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn origins_are_listed_in_any_form() {
        for entry in [
            "https://app.example",
            "https://App.example/",
            "https://app.example:443",
            "HTTPS://app.example:443/",
        ] {
            assert_eq!(Origins::check(entry), Ok(()), "{entry}");
            let listed = origins(&[entry]);
            assert!(listed.allows(Some("https://app.example"), Some("chat.example"), true), "{entry}");
            assert!(!listed.allows(Some("http://app.example"), Some("chat.example"), true), "{entry}");
            assert!(!listed.allows(Some("https://app.example:80"), Some("chat.example"), true), "{entry}");
        }
        for entry in ["https://app.example//", "https://app.example/page", "/"] {
            assert_eq!(Origins::check(entry), Err(BadOrigin), "{entry}");
        }
    }

    #[test]
    fn an_unlisted_origin_must_be_the_servers_own_or_local() {
        let none = Origins::default();
        for (origin, host, allowed) in [
            (None, "chat.example", true),
            (None, "", true),
            // Same origin.
            (Some("https://chat.example"), "chat.example", true),
            (Some("https://chat.example"), "CHAT.example:443", true),
            (Some("https://chat.example:443"), "chat.example", true),
            (Some("http://chat.example:8000"), "chat.example:8000", true),
            (Some("HTTP://Chat.Example:8000"), "chat.example:8000", true),
            (Some("http://10.0.0.7:8000"), "10.0.0.7:8000", true),
            (Some("http://[2001:db8::1]:8000"), "[2001:db8::1]:8000", true),
            // Different origin.
            (Some("https://evil.example"), "chat.example", false),
            (Some("http://chat.example"), "chat.example:8000", false),
            (Some("http://chat.example:8001"), "chat.example:8000", false),
            (Some("https://chat.example"), "chat.example:80", false),
            (Some("https://chat.example.evil.example"), "chat.example", false),
            (Some("https://xchat.example"), "chat.example", false),
            (Some("https://user@chat.example"), "chat.example", false),
            (Some("https://chat.example/"), "chat.example", false),
            (Some("app://chat.example"), "chat.example", false),
            (Some("null"), "chat.example", false),
            (Some(""), "", false),
            (Some("null"), "null", false),
            (Some("chat.example"), "chat.example", false),
            (Some("https://"), "", false),
            (Some("https://chat.example"), "", false),
            // The visitor's own machine.
            (Some("http://localhost:3000"), "127.0.0.1:8000", true),
            (Some("http://127.0.0.1:3000"), "localhost:8000", true),
            (Some("http://[::1]:3000"), "127.8.8.8:8000", true),
            (Some("https://LOCALHOST"), "[::1]:8000", true),
            (Some("null"), "localhost:8000", false),
            (Some("https://evil.example"), "localhost:8000", false),
            (Some("https://evil.example"), "127.0.0.1:8000", false),
            (Some("http://localhost:3000"), "chat.example", false),
            (Some("http://localhost.evil.example"), "localhost:8000", false),
            (Some("http://127.0.0.1.evil.example"), "localhost:8000", false),
            (Some("http://localhost:3000"), "evil.example:8000", false),
            (Some("http://10.0.0.7"), "localhost", false),
        ] {
            assert_eq!(none.allows(origin, Some(host), false), allowed, "{origin:?} {host}");
        }
        assert!(!none.allows(Some("https://chat.example"), None, false));
        assert!(none.allows(None, None, false));
    }

    #[test]
    fn a_refused_origin_is_named() {
        let long = format!("https://{}.example", "a".repeat(200));
        for (origin, shown) in [
            (&b"https://evil.example"[..], "https://evil.example"),
            (b"null", "null"),
            (b"a\x1b[31m\xe9\n", r"a\x1b[31m\xe9\n"),
            (long.as_bytes(), &*format!("https://{}...", "a".repeat(120))),
        ] {
            let refused = Origins::default().check_request(Some(origin), Some("chat.example"), false);
            let message = refused.expect_err(shown).to_string();
            assert_eq!(message, format!("the origin `{shown}` is not in auth.origins"));
        }
    }

    #[test]
    fn an_unguarded_listener_does_not_trust_host_names() {
        let listed = origins(&["http://app.example"]);
        for (origin, host, allowed) in [
            (None, "evil.example:8000", true),
            (Some("http://evil.example:8000"), "evil.example:8000", false),
            (Some("http://127.0.0.1:8000"), "127.0.0.1:8000", true),
            (Some("http://10.0.0.7:8000"), "10.0.0.7:8000", true),
            (Some("http://localhost:8000"), "localhost:8000", true),
            (Some("http://app.example"), "app.example", true),
        ] {
            assert_eq!(listed.allows(origin, Some(host), true), allowed, "{origin:?} {host}");
        }
    }

    #[test]
    fn listed_origins_must_match_exactly() {
        let listed = origins(&["https://App.example", "http://app.example:8080"]);
        for (origin, allowed) in [
            ("https://app.example", true),
            ("HTTPS://APP.EXAMPLE", true),
            ("http://app.example:8080", true),
            ("http://app.example", false),
            ("https://app.example:8443", false),
            ("https://app.example.evil.example", false),
            ("https://sub.app.example", false),
            ("null", false),
        ] {
            assert_eq!(listed.allows(Some(origin), Some("chat.example"), false), allowed, "{origin}");
        }
        let any = origins(&["*"]);
        assert!(any.allows(Some("https://evil.example"), Some("chat.example"), true));
        assert!(any.allows(Some("null"), None, true));
    }

    #[test]
    fn only_valid_origins_can_be_listed() {
        for text in [
            "*",
            "https://app.example",
            "http://app.example:8080",
            "http://[::1]:3000",
            "http://10.0.0.7",
            "app://localhost",
            "chrome-extension://abcdefghijklmnop",
        ] {
            assert_eq!(Origins::check(text), Ok(()), "{text}");
        }
        for text in [
            "",
            "app.example",
            "https://app.example/path",
            "https://*.app.example",
            "https://user@app.example",
            "https://",
            "://app.example",
            "https://app.example:",
            "https://app.example:99999",
            "https://app example",
            "1http://app.example",
            "null",
            "https://app.example?",
        ] {
            assert_eq!(Origins::check(text), Err(BadOrigin), "{text}");
        }
    }
}
