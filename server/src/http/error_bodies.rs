use std::io;
use std::task::{Poll, ready};

use encke_timeouts::clock::{UnixTime, unix_now};
use http_body_util::BodyExt;

use super::{ApiError, ApiErrorCode, MAX_HEAD_BYTES, Reply, http_date};

/// Gives hyper's own error responses a body. hyper itself answers a request that it cannot read, and calls no
/// service for it.
#[derive(Debug, Default)]
pub(crate) struct ErrorBodies {
    any_origin: bool,
    /// Rest of the response that replaces hyper's.
    rest: Vec<u8>,
}

impl ErrorBodies {
    /// Pages of any origin may read the responses: the origin of a request that cannot be read is unknown, and
    /// the responses contain nothing about clients.
    pub(crate) fn for_any_origin() -> Self {
        Self { any_origin: true, ..Self::default() }
    }

    /// Writes `bytes`, or the response that replaces them.
    pub(crate) fn poll_write(
        &mut self,
        bytes: &[u8],
        mut write: impl FnMut(&[u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if self.rest.is_empty() {
            match error_of(bytes) {
                Some(error) => self.rest = response(error, self.any_origin, unix_now()),
                None => return write(bytes),
            }
        }
        while !self.rest.is_empty() {
            let written = ready!(write(&self.rest))?;
            if written == 0 {
                return Poll::Ready(Ok(0));
            }
            self.rest.drain(..written);
        }
        Poll::Ready(Ok(bytes.len()))
    }
}

/// Returns the error that hyper reports with these bytes. Errors of services have a body.
fn error_of(bytes: &[u8]) -> Option<ApiError> {
    let head = str::from_utf8(bytes.strip_prefix(b"HTTP/1.")?.strip_suffix(b"\r\n\r\n")?).ok()?;
    head.split("\r\n").find(|line| line.eq_ignore_ascii_case("content-length: 0"))?;
    match head.split(' ').nth(1)? {
        "414" | "431" => {
            let message =
                format!("the request's path, query and headers have more than {MAX_HEAD_BYTES} bytes");
            Some(ApiError::new(ApiErrorCode::HeadTooLarge, message))
        }
        "400" => Some(ApiError::bad_request("the request is not valid HTTP/1.1")),
        _ => None,
    }
}

/// Serializes the response.
fn response(error: ApiError, any_origin: bool, now: UnixTime) -> Vec<u8> {
    let (head, body) = Reply::from(error).into_parts();
    let cors = if any_origin { "access-control-allow-origin: *\r\n" } else { "" };
    let text = format!(
        "HTTP/1.1 {}\r\n{cors}content-type: application/json\r\ncache-control: no-store\r\ndate: {}\r\nconnection: close\r\n",
        head.status,
        http_date(now)
    );
    let body = futures_util::FutureExt::now_or_never(body.collect()).expect("a full body is ready");
    let body = body.expect("a full body cannot fail").to_bytes();
    [text.as_bytes(), format!("content-length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYPER: &[u8] =
        b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

    #[test]
    fn only_errors_without_a_body_are_replaced() {
        for (bytes, is_replaced) in [
            (HYPER, true),
            (b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n", true),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", false),
            (b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}", false),
            (b"HTTP/1.1 404 Not Found\r\ncontent-length: 70\r\n\r\n", false),
            (b"400 content-length: 0\r\n\r\n", false),
        ] {
            assert_eq!(error_of(bytes).is_some(), is_replaced, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn response_may_be_written_in_pieces() {
        let (mut errors, mut written) = (ErrorBodies::default(), Vec::new());
        let mut calls = 0;
        loop {
            let done = errors.poll_write(HYPER, |bytes| {
                calls += 1;
                if calls % 3 == 0 {
                    return Poll::Pending;
                }
                let piece = bytes.len().min(50);
                written.extend_from_slice(&bytes[..piece]);
                Poll::Ready(Ok(piece))
            });
            if let Poll::Ready(done) = done {
                assert_eq!(done.expect("no error"), HYPER.len());
                break;
            }
        }
        let text = String::from_utf8(written).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 431 Request Header Fields Too Large\r\n"), "{head}");
        assert!(head.ends_with(&format!("\r\ncontent-length: {}", body.len())), "{head}");
        assert!(body.starts_with(r#"{"error":{"code":"head_too_large","#), "{body}");
    }
}
