//! Parser for the answers to polls.

/// A complete answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PollAnswer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a str,
}

/// Parses the answer in `bytes`. Returns `None` if it is incomplete, and an error if more bytes follow: a
/// request has exactly one answer.
pub(crate) fn read(bytes: &[u8]) -> Result<Option<PollAnswer<'_>>, String> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&bytes[..end]).map_err(|error| error.to_string())?;
    let wrong = || format!("an answer that starts with {head}");
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    let (status, length) = status.zip(length).ok_or_else(wrong)?;
    let body = &bytes[end + 4..];
    if body.len() > length {
        return Err(format!("{} bytes after the answer {head}", body.len() - length));
    }
    if body.len() < length {
        return Ok(None);
    }
    let body = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    Ok(Some(PollAnswer { status, body }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_answers_are_not_parsed() {
        let bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx: y\r\n\r\n[]";
        assert_eq!(read(bytes), Ok(Some(PollAnswer { status: 200, body: "[]" })));
        for length in 0..bytes.len() {
            assert_eq!(read(&bytes[..length]), Ok(None), "{length}");
        }
        assert!(read(&[&bytes[..], b"H"].concat()).is_err(), "a second answer");
        assert!(read(b"HTTP/1.1 200 OK\r\n\r\n").is_err(), "no length");
    }
}
