//! Request bodies: JSON of limited size, received within a limited time.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use encke_timeouts::Timeouts;
use futures_util::future::{Either, select};
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE};
use serde::Deserialize;

use super::{ApiError, ApiErrorCode};

/// Maximum number of excess bytes to read and discard, so that a client that writes everything before it
/// reads gets its response.
const MAX_DISCARDED_BYTES: usize = 1024 * 1024;

/// Maximum length of an error message that quotes a client's input.
const MAX_MESSAGE_CHARS: usize = 200;

/// Limits of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimits {
    pub(crate) max_bytes: usize,
    /// Time within which the body must arrive.
    pub(crate) timeout: Duration,
}

/// Reads a whole body. Whenever the buffer grows, `grown` is called with its new size.
pub(crate) async fn read(
    body: Incoming,
    limits: BodyLimits,
    timeouts: &Arc<Timeouts>,
    grown: impl FnMut(usize),
) -> Result<Bytes, ApiError> {
    let timeout = pin!(timeouts.sleep(limits.timeout));
    match select(pin!(collect(body, limits.max_bytes, grown)), timeout).await {
        Either::Left((body, _)) => body,
        Either::Right(_) => Err(ApiError::new(
            ApiErrorCode::Timeout,
            "the body did not arrive in time (limits.handshake_timeout)",
        )),
    }
}

/// Parses a body as JSON.
pub(crate) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        ApiError::bad_request(error.to_string().chars().take(MAX_MESSAGE_CHARS).collect::<String>())
    })
}

/// Parses a body that must be an object. serde_json would also accept an array of its fields in order.
pub(crate) fn parse_object<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ApiError> {
    if body.trim_ascii_start().first() == Some(&b'[') {
        return Err(ApiError::bad_request("the body must be a JSON object"));
    }
    parse(body)
}

/// Returns the media type that the headers declare, without parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim()
}

/// Checks that the headers declare the body as JSON. A form on another site's page can post text, but cannot
/// declare it as JSON.
pub(crate) fn check_json(headers: &HeaderMap) -> Result<(), ApiError> {
    check_encoding(headers)?;
    if media_type(headers).eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(ApiError::new(ApiErrorCode::UnsupportedMediaType, "send `Content-Type: application/json`"))
}

/// Checks that the body is not compressed: a small body could then take much memory.
pub(crate) fn check_encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    if codings.all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Ok(());
    }
    let message = "the body must not be compressed: send no Content-Encoding";
    Err(ApiError::new(ApiErrorCode::UnsupportedMediaType, message))
}

async fn collect(
    mut body: impl Body<Data = Bytes, Error = hyper::Error> + Unpin,
    limit: usize,
    mut grown: impl FnMut(usize),
) -> Result<Bytes, ApiError> {
    let too_large = || {
        let message = format!("the body has more than {limit} bytes (limits.max_message)");
        ApiError::new(ApiErrorCode::TooLarge, message)
    };
    let max_read = limit + MAX_DISCARDED_BYTES;
    if body.size_hint().lower() > max_read as u64 {
        return Err(too_large());
    }
    let mut collected = BytesMut::new();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| ApiError::bad_request(format!("the body is incomplete: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        length += data.len();
        if length > max_read {
            break;
        }
        if length <= limit {
            collected.extend_from_slice(&data);
            grown(collected.capacity());
        }
    }
    if length > limit { Err(too_large()) } else { Ok(collected.freeze()) }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn only_json_is_accepted() {
        for (text, taken) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/json ;x", true),
            ("text/plain", false),
            ("text/plain; application/json", false),
            ("application/json5", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(text))]);
            assert_eq!(check_json(&headers).is_ok(), taken, "{text}");
        }
        assert!(check_json(&HeaderMap::new()).is_err());
        for (coding, taken) in [("gzip", false), ("identity, gzip", false), ("", false), ("Identity", true)] {
            let json = (CONTENT_TYPE, HeaderValue::from_static("application/json"));
            let headers = HeaderMap::from_iter([json, (CONTENT_ENCODING, HeaderValue::from_static(coding))]);
            assert_eq!(check_json(&headers).is_ok(), taken, "{coding}");
        }
    }
}
