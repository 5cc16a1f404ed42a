//! Cross-origin access (CORS), only for the origins that the configuration lists, and only for what their
//! clients need.

use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, HeaderMap, HeaderValue, ORIGIN, VARY,
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
    if !caller.origin_allowed {
        return ApiError::forbidden("this origin is not in auth.origins").into();
    }
    let mut reply = no_content();
    let allowed = reply.headers_mut();
    allow_origin(allowed, headers.get(ORIGIN));
    allowed.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    allowed.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(allowed_headers));
    reply
}

/// Allows the page of this origin to read the response.
pub(super) fn allow_origin(headers: &mut HeaderMap, origin: Option<&HeaderValue>) {
    if let Some(origin) = origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(VARY, HeaderValue::from_static("origin"));
    }
}

/// Like [`allow_origin`], for requests with cookies.
pub(super) fn allow_origin_with_cookies(headers: &mut HeaderMap, origin: Option<&HeaderValue>) {
    allow_origin(headers, origin);
    if origin.is_some() {
        headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
}

/// Serializes headers as lines of a response's head.
pub(super) fn lines(headers: &HeaderMap) -> Vec<u8> {
    let mut lines = Vec::new();
    for (name, value) in headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    lines
}
