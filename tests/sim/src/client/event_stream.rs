//! Parser for responses with server-sent events.

/// A server-sent event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamEvent<'a> {
    pub(crate) id: Option<&'a str>,
    pub(crate) data: Option<&'a str>,
    pub(crate) is_comment: bool,
    pub(crate) is_retry: bool,
}

/// Checks the head of the response. Returns its length, or `None` if it is incomplete.
pub(crate) fn read_head(bytes: &[u8]) -> Result<Option<usize>, String> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    if bytes.starts_with(b"HTTP/1.1 200 ") {
        return Ok(Some(end + 4));
    }
    Err(format!("the answer starts with {}", String::from_utf8_lossy(&bytes[..end])))
}

/// Parses the first event in `bytes`. Returns it with its length, or `None` if it is incomplete.
pub(crate) fn read_event(bytes: &[u8]) -> Result<Option<(StreamEvent<'_>, usize)>, String> {
    if bytes.starts_with(b":") {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        return Ok(end.map(|end| (StreamEvent { is_comment: true, ..StreamEvent::default() }, end + 1)));
    }
    let Some(end) = bytes.windows(2).position(|two| two == b"\n\n") else { return Ok(None) };
    let text = std::str::from_utf8(&bytes[..end]).map_err(|error| error.to_string())?;
    let mut event = StreamEvent::default();
    for line in text.split('\n') {
        match line.split_once(':') {
            Some(("id", id)) => event.id = Some(id.strip_prefix(' ').unwrap_or(id)),
            Some(("data", data)) if event.data.is_none() => {
                event.data = Some(data.strip_prefix(' ').unwrap_or(data));
            }
            Some(("retry", _)) => event.is_retry = true,
            _ => return Err(format!("an invalid line of an event: {line}")),
        }
    }
    Ok(Some((event, end + 2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_events_are_not_parsed() {
        let bytes = b"id: t:7\ndata: {}\n\n:\nretry: 5\n\n";
        let (event, taken) = read_event(bytes).expect("a valid event").expect("a complete event");
        assert_eq!((event.id, event.data, taken), (Some("t:7"), Some("{}"), 18));
        let (event, taken) = read_event(&bytes[18..]).expect("a valid event").expect("a complete event");
        assert!(event.is_comment && taken == 2);
        assert_eq!(read_event(b"id: t:7\n"), Ok(None));
        assert!(read_event(b"x\n\n").is_err());
        assert_eq!(read_head(b"HTTP/1.1 200 OK\r\n\r\nid"), Ok(Some(19)));
        assert!(read_head(b"HTTP/1.1 500 X\r\n\r\n").is_err());
    }
}
