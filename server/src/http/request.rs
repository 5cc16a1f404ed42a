//! Parts of a request's head.

use std::borrow::Cow;

use hyper::Uri;
use hyper::header::{COOKIE, HeaderMap};

/// Returns the parameters of the query.
pub(crate) fn parameters(uri: &Uri) -> form_urlencoded::Parse<'_> {
    form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
}

/// Returns the last parameter of the query with this name.
pub(crate) fn parameter<'a>(uri: &'a Uri, name: &str) -> Option<Cow<'a, str>> {
    parameters(uri).filter(|(parameter, _)| parameter == name).last().map(|(_, value)| value)
}

/// Returns the names and values of all cookies.
pub(crate) fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let lines = headers.get_all(COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='))
}
