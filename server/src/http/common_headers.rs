//! Headers that every response has.

use std::time::{Duration, UNIX_EPOCH};

use encke_timeouts::clock::UnixTime;
use hyper::header::{CACHE_CONTROL, CONNECTION, DATE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, Version};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// Returns the value of `Date`. hyper's own header keeps the old time if the wall clock is set back.
pub(crate) fn http_date(now: UnixTime) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(now.as_secs()))
}

/// Returns the value of `Keep-Alive` for a connection that waits for at most `timeout`.
pub(crate) fn keep_alive_value(timeout: Duration) -> String {
    format!("timeout={}", timeout.as_secs())
}

/// Whether another request may follow on the connection.
pub(crate) fn keeps_alive(version: Version, headers: &HeaderMap) -> bool {
    let says_close =
        |value: &HeaderValue| elements(value.as_bytes()).any(|option| option.eq_ignore_ascii_case(b"close"));
    version == Version::HTTP_11 && !headers.get_all(CONNECTION).iter().any(says_close)
}

/// Returns the elements of a header whose value is a list (RFC 9110, section 5.6.1).
pub(crate) fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Adds `Date`, and forbids caches to store a response that does not say otherwise. `keep_alive` is how
/// long the connection then waits for the next request; `None` if it closes.
pub(crate) fn add_common_headers<B>(response: &mut Response<B>, now: UnixTime, keep_alive: Option<Duration>) {
    if response.status().is_informational() {
        return;
    }
    let headers = response.headers_mut();
    headers.insert(DATE, HeaderValue::try_from(http_date(now)).expect("a date is visible ASCII"));
    if let Some(timeout) = keep_alive.filter(|_| !headers.contains_key(CONNECTION)) {
        let value = HeaderValue::try_from(keep_alive_value(timeout)).expect("a number is visible ASCII");
        headers.insert(KEEP_ALIVE, value);
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_added() {
        let mut response = Response::new(());
        add_common_headers(&mut response, UnixTime::from_secs(784_111_777), None);
        assert_eq!(response.headers()[DATE], "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
        let kept = HeaderValue::from_static("public, no-cache");
        response.headers_mut().insert(CACHE_CONTROL, kept.clone());
        add_common_headers(&mut response, UnixTime::from_secs(784_111_776), Some(Duration::from_secs(75)));
        assert_eq!(response.headers()[DATE], "Sun, 06 Nov 1994 08:49:36 GMT");
        assert_eq!(response.headers()[CACHE_CONTROL], kept);
        assert_eq!(response.headers()[KEEP_ALIVE], "timeout=75");
    }
}
