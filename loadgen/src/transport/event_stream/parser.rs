//! Lines and events, by the standard's section 9.2.6.

use crate::transport::websocket::Fault;

/// The longest event that is read.
const MAX_EVENT_BYTES: usize = 1 << 20;

/// What a stream has in it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// The last event's id is this from now on; it comes before its event.
    Id(&'a str),
    /// An event's data.
    Event(&'a str),
    /// A comment: servers send them to show that they are there.
    Comment,
}

/// Takes events out of a stream. It keeps bytes only while a line or an event is incomplete.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    /// Of the event so far: each line with its end.
    data: String,
    id: Option<String>,
    /// The last line ended with a carriage return: a line feed that follows belongs to it.
    after_return: bool,
    /// The id of a complete event was handed over, its data not yet.
    owes_event: bool,
    /// Something has been read, so that there is no byte order mark any more.
    begun: bool,
}

impl Parser {
    /// Hands over what is complete with these bytes. `Err` with the rest of them if that breaks.
    pub(crate) fn feed<'b, T>(
        &mut self,
        bytes: &'b [u8],
        on_found: &mut impl FnMut(Found<'_>) -> Option<T>,
    ) -> Result<Option<(T, &'b [u8])>, Fault> {
        let mut rest = bytes;
        if self.owes_event
            && let Some(value) = self.dispatch_event(on_found)
        {
            return Ok(Some((value, rest)));
        }
        loop {
            if self.after_return {
                let Some(first) = rest.first() else { return Ok(None) };
                rest = if *first == b'\n' { &rest[1..] } else { rest };
                self.after_return = false;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let Some(end) = end else {
                self.line.extend_from_slice(rest);
                return if self.kept_bytes() > MAX_EVENT_BYTES {
                    Err(Fault::TooBig(self.kept_bytes() as u64))
                } else {
                    Ok(None)
                };
            };
            self.line.extend_from_slice(&rest[..end]);
            self.after_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if self.kept_bytes() > MAX_EVENT_BYTES {
                return Err(Fault::TooBig(self.kept_bytes() as u64));
            }
            let line = std::mem::take(&mut self.line);
            if let Some(value) = self.take_line(&line, on_found) {
                return Ok(Some((value, rest)));
            }
        }
    }

    pub(crate) fn kept_bytes(&self) -> usize {
        self.line.len() + self.data.len() + self.id.as_ref().map_or(0, String::len)
    }

    fn take_line<T>(&mut self, line: &[u8], on_found: &mut impl FnMut(Found<'_>) -> Option<T>) -> Option<T> {
        let line = String::from_utf8_lossy(line);
        let mut line = line.as_ref();
        if !self.begun {
            self.begun = true;
            line = line.strip_prefix('\u{FEFF}').unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(on_found);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "" => return on_found(Found::Comment),
            "data" => {
                self.data.push_str(value);
                self.data.push('\n');
            }
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            // The type of an event and the pause before a reconnect matter to pages.
            _ => {}
        }
        None
    }

    /// An event is complete. Its id counts even if it has no data.
    fn dispatch<T>(&mut self, on_found: &mut impl FnMut(Found<'_>) -> Option<T>) -> Option<T> {
        self.owes_event = true;
        let id = self.id.take();
        match id.and_then(|id| on_found(Found::Id(&id))) {
            Some(value) => Some(value),
            None => self.dispatch_event(on_found),
        }
    }

    fn dispatch_event<T>(&mut self, on_found: &mut impl FnMut(Found<'_>) -> Option<T>) -> Option<T> {
        self.owes_event = false;
        let data = std::mem::take(&mut self.data);
        if data.is_empty() { None } else { on_found(Found::Event(data.strip_suffix('\n').unwrap_or(&data))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(stream: &[u8], piece: usize) -> Vec<String> {
        let mut parser = Parser::default();
        let mut all = Vec::new();
        for piece in stream.chunks(piece) {
            let found = parser.feed(piece, &mut |found| {
                all.push(match found {
                    Found::Id(id) => format!("id {id}"),
                    Found::Event(data) => data.to_owned(),
                    Found::Comment => "comment".to_owned(),
                });
                None::<()>
            });
            assert_eq!(found, Ok(None));
        }
        all
    }

    /// The examples of the standard, and its corners.
    #[test]
    fn streams_are_read_as_the_standard_says() {
        for (stream, expected) in [
            (&b"data: YHOO\ndata: +2\ndata: 10\n\n"[..], &["YHOO\n+2\n10"][..]),
            (
                b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n",
                &["comment", "id 1", "first event", "id ", "second event"],
            ),
            (b"data\n\ndata\ndata\n\ndata:", &["", "\n"]),
            (b"data:test\n\ndata: test\n\n", &["test", "test"]),
            (b"\xEF\xBB\xBFdata: a\r\n\r\ndata: b\r\rdata: c\n\n", &["a", "b", "c"]),
            (b"event: x\nretry: 5\nnews: 1\ndata: a\n\n", &["a"]),
            (b"id: a\0b\ndata: a\n\n", &["a"]),
            (b"id: 7\n\n", &["id 7"]),
            (b"data: \xff\n\n", &["\u{FFFD}"]),
            (b"\n\n\n", &[]),
        ] {
            for piece in [1, 2, 3, 100] {
                assert_eq!(
                    parse(stream, piece),
                    expected,
                    "{:?} by {piece}",
                    String::from_utf8_lossy(stream)
                );
            }
        }
    }

    #[test]
    fn an_event_has_a_limit() {
        let mut parser = Parser::default();
        let long = vec![b'x'; MAX_EVENT_BYTES + 1];
        let found = parser.feed(&long, &mut |_| None::<()>);
        assert!(matches!(found, Err(Fault::TooBig(_))));
    }
}
