//! Cross-origin access (CORS), only for the origins that the configuration lists, and only for what their
//! clients need.

use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE, HeaderMap, HeaderName, HeaderValue, ORIGIN, VARY,
};

use crate::client::Caller;
use crate::http::reply::no_content;
use crate::http::{ApiError, Reply};

/// Answers a browser's preflight request, which asks whether a page of another origin may send a request with
/// these methods and headers.
pub(super) fn preflight(
    caller: &Caller,
    headers: &HeaderMap,
    methods: &'static str,
    allowed_headers: &'static str,
) -> Reply {
    if let Err(refused) = &caller.origin {
        return ApiError::forbidden(refused.to_string()).into();
    }
    let mut reply = no_content();
    let allowed = reply.headers_mut();
    allowed.extend(self::headers(headers.get(ORIGIN), Cookies::Ignored));
    allowed.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    allowed.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(allowed_headers));
    // Two hours, the most that Chromium honours. Otherwise, a page would ask before every poll.
    allowed.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("7200"));
    reply
}

/// Whether the requests of a page may contain cookies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cookies {
    Allowed,
    Ignored,
}

/// Returns the headers that allow the page of this origin to read the response.
pub(super) fn headers(
    origin: Option<&HeaderValue>,
    cookies: Cookies,
) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let credentials = (cookies == Cookies::Allowed)
        .then(|| (ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true")));
    let headers = origin.map(|origin| {
        let vary = (VARY, HeaderValue::from_static("origin"));
        [(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone()), vary].into_iter().chain(credentials)
    });
    headers.into_iter().flatten()
}

/// Serializes [`headers`] as lines of a response's head.
pub(super) fn lines(origin: Option<&HeaderValue>, cookies: Cookies) -> Vec<u8> {
    let mut lines = Vec::new();
    for (name, value) in headers(origin, cookies) {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    lines
}

/// Allows a page of this origin to read a response, unless the response already says who may read it.
pub(super) fn allow_origin(mut reply: Reply, origin: Option<&HeaderValue>) -> Reply {
    if !reply.headers().contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) {
        reply.headers_mut().extend(headers(origin, Cookies::Ignored));
    }
    reply
}

/// Allows a page of an allowed origin to read a response to its request.
pub(super) fn allow(mut reply: Reply, caller: &Caller, request: &HeaderMap, cookies: Cookies) -> Reply {
    if caller.origin.is_ok() {
        reply.headers_mut().extend(headers(request.get(ORIGIN), cookies));
    }
    reply
}
