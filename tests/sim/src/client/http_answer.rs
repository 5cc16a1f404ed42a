//! Parser for HTTP responses.

use httparse::{EMPTY_HEADER, Response, Status};

/// Head of a response.
pub(super) struct Head {
    pub(super) status: u16,
    /// Length of the head in bytes.
    pub(super) length: usize,
    content_length: Option<usize>,
}

/// A complete response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HttpAnswer<'a> {
    pub(super) status: u16,
    pub(super) body: &'a str,
}

/// Parses the head of a response. Returns `None` if it is incomplete.
pub(super) fn read_head(bytes: &[u8]) -> Result<Option<Head>, String> {
    let mut headers = [EMPTY_HEADER; 16];
    let mut response = Response::new(&mut headers);
    let Status::Complete(length) = response.parse(bytes).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let of_content = response.headers.iter().find(|header| header.name == "content-length");
    let content_length = of_content.and_then(|header| std::str::from_utf8(header.value).ok()?.parse().ok());
    Ok(Some(Head { status: response.code.unwrap_or_default(), length, content_length }))
}

/// Parses the response in `bytes`. Returns `None` if it is incomplete, and an error if more bytes follow: a
/// request has exactly one response.
pub(super) fn read(bytes: &[u8]) -> Result<Option<HttpAnswer<'_>>, String> {
    let Some(Head { status, length, content_length }) = read_head(bytes)? else { return Ok(None) };
    let (body, expected) = (&bytes[length..], content_length.ok_or("a response without a length")?);
    if body.len() > expected {
        return Err(format!("{} bytes after the response", body.len() - expected));
    }
    if body.len() < expected {
        return Ok(None);
    }
    let body = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    Ok(Some(HttpAnswer { status, body }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_answers_are_not_parsed() {
        let bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx: y\r\n\r\n[]";
        assert_eq!(read(bytes), Ok(Some(HttpAnswer { status: 200, body: "[]" })));
        assert!((0..bytes.len()).all(|length| read(&bytes[..length]) == Ok(None)));
        assert!(read(&[&bytes[..], b"H"].concat()).is_err(), "a second answer");
        assert!(read(b"HTTP/1.1 200 OK\r\n\r\n").is_err(), "no length");
    }
}
