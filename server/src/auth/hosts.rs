use hyper::header::{HOST, HeaderMap, HeaderName, ORIGIN};

use super::HostPort;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The names by which requests may come to a listener that nothing else guards.
///
/// A name proves little: the owner of a page can have its name lead to the visitor's own machine from one moment to the next
/// (DNS rebinding), and the browser then takes this server for the page's own. So a name must be listed; addresses and
/// `localhost` nobody else can own.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Box<[Box<str>]>);

/// Why a request is refused for what it says of its way here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadHost {
    /// RFC 9112, section 3.2: a server answers it with 400.
    #[error("exactly one Host is required")]
    NotOne,
    /// A name that is not listed.
    #[error("Host must be an IP address, localhost or one of listen.hosts")]
    Unlisted,
    /// A page of another site has the browser fetch it, without saying which page.
    #[error("requests of other sites are refused (Sec-Fetch-Site)")]
    CrossSite,
}

/// Why something is no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a name such as \"encke.example\", without a port")]
pub struct NotAHost;

impl Hosts {
    /// Whether text can stand in the list.
    ///
    /// # Errors
    /// [`NotAHost`].
    pub fn check(text: &str) -> Result<(), NotAHost> {
        let is_name = HostPort::parse(text).is_some_and(|host| host.host == text && host.is_name());
        if is_name { Ok(()) } else { Err(NotAHost) }
    }

    /// Takes a list that was checked.
    #[must_use]
    pub fn new(list: &[String]) -> Self {
        Self(list.iter().map(|host| host.as_str().into()).collect())
    }

    /// Whether this host is listed.
    pub(crate) fn lists(&self, host: &str) -> bool {
        HostPort::parse(host)
            .is_some_and(|host| self.0.iter().any(|listed| listed.eq_ignore_ascii_case(host.host)))
    }

    /// Whether a request with these headers may be answered. `guarded`: it needs a token or a key anyway.
    pub(crate) fn allow(&self, headers: &HeaderMap, guarded: bool) -> Result<(), BadHost> {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(BadHost::NotOne) };
        if guarded {
            return Ok(());
        }
        let host = host.to_str().ok().and_then(HostPort::parse).ok_or(BadHost::Unlisted)?;
        if host.is_name() && !self.0.iter().any(|listed| listed.eq_ignore_ascii_case(host.host)) {
            return Err(BadHost::Unlisted);
        }
        // Where there is an origin, it decides: a page that is listed is of another site, too.
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
    fn a_name_must_be_listed_where_nothing_else_guards() {
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
            let expected = if allowed { Ok(()) } else { Err(BadHost::Unlisted) };
            assert_eq!(hosts.allow(&headers, false), expected, "{host}");
            assert_eq!(hosts.allow(&headers, true), Ok(()), "{host}");
        }
    }

    #[test]
    fn there_is_one_host() {
        let none = headers(&[]);
        let two = headers(&[(HOST, "localhost"), (HOST, "evil.example")]);
        for headers in [none, two] {
            for guarded in [false, true] {
                assert_eq!(Hosts::default().allow(&headers, guarded), Err(BadHost::NotOne));
            }
        }
    }

    #[test]
    fn other_sites_must_say_who_they_are() {
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
