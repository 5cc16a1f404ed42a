use hyper::header::{HOST, HeaderMap, HeaderName, ORIGIN};

use super::{ClientText, HostPort};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Host names accepted by a listener that has no other protection.
///
/// A name proves little: a page's owner can rebind the page's name to the visitor's own machine at any time
/// (DNS rebinding), and the browser then treats this server as the page's own. Therefore, a name must be
/// listed. IP addresses and `localhost` cannot be rebound and are always accepted.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Box<[Box<str>]>);

/// Why a request is rejected because of its `Host` or `Sec-Fetch-Site` header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadHost {
    /// The `Host` header is missing or repeated. A server must respond with 400 (RFC 9112, section 3.2).
    #[error("exactly one Host header is required")]
    NotOne,
    /// The host is a name that is not listed.
    #[error("the host `{0}` is not an IP address, localhost or one of listen.hosts")]
    Unlisted(ClientText),
    /// A page of another site caused the request, and the browser does not name the page.
    #[error("cross-site requests are rejected (Sec-Fetch-Site)")]
    CrossSite,
}

/// Error for a string that is not a valid host name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a name such as \"encke.example\", without a port")]
pub struct NotAHost;

impl Hosts {
    /// Checks whether `text` is a valid entry of the list.
    ///
    /// # Errors
    /// [`NotAHost`].
    pub fn check(text: &str) -> Result<(), NotAHost> {
        let is_name = HostPort::parse(text).is_some_and(|host| host.host == text && host.is_name());
        if is_name { Ok(()) } else { Err(NotAHost) }
    }

    /// Creates the list. Its entries must have passed [`Self::check`].
    #[must_use]
    pub fn new(list: &[String]) -> Self {
        Self(list.iter().map(|host| host.as_str().into()).collect())
    }

    pub(crate) fn contains(&self, host: &str) -> bool {
        HostPort::parse(host)
            .is_some_and(|host| self.0.iter().any(|listed| listed.eq_ignore_ascii_case(host.host)))
    }

    /// Checks whether a request with these headers may be answered. `guarded` is whether the request needs a
    /// token or key anyway.
    pub(crate) fn allow(&self, headers: &HeaderMap, guarded: bool) -> Result<(), BadHost> {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(BadHost::NotOne) };
        if guarded {
            return Ok(());
        }
        let parsed = host.to_str().ok().and_then(HostPort::parse);
        let is_listed = |name: &str| self.0.iter().any(|listed| listed.eq_ignore_ascii_case(name));
        if !parsed.is_some_and(|parsed| !parsed.is_name() || is_listed(parsed.host)) {
            return Err(BadHost::Unlisted(ClientText::new(host.as_bytes())));
        }
        // If there is an `Origin`, it decides instead: requests from listed pages are cross-site, too.
        let is_cross_site = headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "cross-site");
        if is_cross_site && !headers.contains_key(ORIGIN) { Err(BadHost::CrossSite) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn headers(list: &[(HeaderName, &'static str)]) -> HeaderMap {
        let value = |value| HeaderValue::from_static(value);
        let mut headers = HeaderMap::new();
        for (name, text) in list {
            headers.append(name.clone(), value(text));
        }
        headers
    }

    #[test]
    fn a_name_must_be_listed_on_an_unguarded_listener() {
        let hosts = Hosts::new(&["Encke".to_owned(), "ws.example".to_owned()]);
        for (host, allowed) in [
            ("127.0.0.1:8001", true),
            ("10.0.0.7", true),
            ("[::1]:8001", true),
            ("localhost:8001", true),
            ("LOCALHOST", true),
            ("encke:8001", true),
            ("WS.example", true),
            ("evil.example:8001", false),
            ("ws.example.evil.example", false),
            ("xencke", false),
            ("", false),
            ("a b", false),
        ] {
            let headers = headers(&[(HOST, host)]);
            let unlisted = || Err(BadHost::Unlisted(ClientText::new(host.as_bytes())));
            let expected = if allowed { Ok(()) } else { unlisted() };
            assert_eq!(hosts.allow(&headers, false), expected, "{host}");
            assert_eq!(hosts.allow(&headers, true), Ok(()), "{host}");
        }
    }

    #[test]
    fn exactly_one_host_is_required() {
        let none = headers(&[]);
        let two = headers(&[(HOST, "localhost"), (HOST, "evil.example")]);
        for headers in [none, two] {
            for guarded in [false, true] {
                assert_eq!(Hosts::default().allow(&headers, guarded), Err(BadHost::NotOne));
            }
        }
    }

    #[test]
    fn cross_site_requests_need_an_origin() {
        let of = |site, origin: Option<&'static str>| {
            let mut list = vec![(HOST, "localhost:8000"), (SEC_FETCH_SITE, site)];
            list.extend(origin.map(|origin| (ORIGIN, origin)));
            Hosts::default().allow(&headers(&list), false)
        };
        assert_eq!(of("cross-site", None), Err(BadHost::CrossSite));
        assert_eq!(of("cross-site", Some("https://app.example")), Ok(()), "the origin decides");
        for site in ["same-origin", "same-site", "none"] {
            assert_eq!(of(site, None), Ok(()), "{site}");
        }
    }

    #[test]
    fn only_names_can_be_listed() {
        assert_eq!(["encke", "ws.example"].map(Hosts::check), [Ok(()); 2]);
        for text in ["", "encke:8001", "10.0.0.7", "localhost", "http://encke", "a/b", "a b", "*"] {
            assert_eq!(Hosts::check(text), Err(NotAHost), "{text}");
        }
    }
}
