//! Headers that every response has.

use std::time::{Duration, UNIX_EPOCH};

use encke_timeouts::clock::UnixTime;
use hyper::Response;
use hyper::header::{CACHE_CONTROL, DATE, HeaderValue};

/// Returns the value of `Date`. hyper's own header keeps the old time if the wall clock is set back.
pub(crate) fn http_date(now: UnixTime) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(now.as_secs()))
}

/// Adds `Date`, and forbids caches to store a response that does not say otherwise.
pub(crate) fn add_common_headers<B>(response: &mut Response<B>, now: UnixTime) {
    if response.status().is_informational() {
        return;
    }
    let headers = response.headers_mut();
    headers.insert(DATE, HeaderValue::try_from(http_date(now)).expect("a date is visible ASCII"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_added() {
        let mut response = Response::new(());
        add_common_headers(&mut response, UnixTime::from_secs(784_111_777));
        assert_eq!(response.headers()[DATE], "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
        let kept = HeaderValue::from_static("public, no-cache");
        response.headers_mut().insert(CACHE_CONTROL, kept.clone());
        add_common_headers(&mut response, UnixTime::from_secs(784_111_776));
        assert_eq!(response.headers()[DATE], "Sun, 06 Nov 1994 08:49:36 GMT");
        assert_eq!(response.headers()[CACHE_CONTROL], kept);
    }
}
