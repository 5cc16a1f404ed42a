use std::borrow::Cow;
use std::collections::BTreeMap;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;

use crate::auth::CredentialsDigest;
use crate::http::request::cookies;

/// Parts of a client's request with which the backend authenticates the client.
#[derive(Debug, Serialize)]
pub(super) struct Credentials<'a> {
    pub(super) token: Option<&'a str>,
    /// Headers listed in `backend.headers`.
    pub(super) headers: BTreeMap<&'a str, Cow<'a, str>>,
    /// Cookies listed in `backend.cookies`.
    pub(super) cookies: BTreeMap<&'a str, &'a str>,
}

impl<'a> Credentials<'a> {
    /// Returns the headers and cookies with these names, without a token.
    pub(super) fn in_headers(
        headers: &'a HeaderMap,
        (names, cookies): (&'a [HeaderName], &'a [String]),
    ) -> Self {
        Self {
            token: None,
            headers: names.iter().filter_map(|name| header_line(headers, name)).collect(),
            cookies: find_cookies(headers, cookies),
        }
    }

    pub(super) fn digest(&self) -> CredentialsDigest {
        CredentialsDigest::of(&serde_json::to_vec(self).expect("maps of text can be serialised"))
    }
}

/// Returns all lines of a header, joined as described in RFC 9110, section 5.2. `None` if the header is
/// absent, or a line is not valid text.
fn header_line<'a>(headers: &'a HeaderMap, name: &'a HeaderName) -> Option<(&'a str, Cow<'a, str>)> {
    let lines: Result<Vec<&str>, _> = headers.get_all(name).iter().map(HeaderValue::to_str).collect();
    match &*lines.ok()? {
        [] => None,
        [line] => Some((name.as_str(), Cow::Borrowed(*line))),
        lines => Some((name.as_str(), Cow::Owned(lines.join(", ")))),
    }
}

/// Returns the request's cookies with one of these names. If several have the same name, the first one is
/// used (RFC 6265, section 5.4).
fn find_cookies<'a>(headers: &'a HeaderMap, names: &'a [String]) -> BTreeMap<&'a str, &'a str> {
    let mut found = BTreeMap::new();
    for (name, value) in cookies(headers) {
        if names.iter().any(|wanted| wanted == name) {
            found.entry(name).or_insert(value);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use hyper::header::COOKIE;

    use super::*;

    #[test]
    fn cookies_are_found_by_name() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, "a=1; sid=x=y;b=2".parse().expect("a header"));
        headers.append(COOKIE, "sid=second; c; =d".parse().expect("a header"));
        let names = ["sid", "b", "c", "none"].map(str::to_owned);
        let found: Vec<_> = find_cookies(&headers, &names).into_iter().collect();
        assert_eq!(found, [("b", "2"), ("sid", "x=y")]);
    }
}
