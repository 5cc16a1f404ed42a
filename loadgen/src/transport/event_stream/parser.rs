//! Lines and events, by the standard's section 9.2.6. Lines are sseer's, which hands out comments and leaves UTF-8 to us;
//! what makes an event of them is here.

use sseer::parser::{RawEventLine, parse_line};

use crate::transport::websocket::Fault;

/// The longest event that is read.
const MAX_EVENT_BYTES: usize = 1 << 20;
const BYTE_ORDER_MARK: &[u8] = "\u{FEFF}".as_bytes();

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

/// Takes events out of a stream. It keeps bytes only while a line or an event is incomplete, or after its reader stopped.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    unparsed: Vec<u8>,
    /// Of the event so far: each line with its end.
    data: String,
    id: Option<String>,
    /// The last byte was a carriage return: a line feed that follows belongs to it.
    after_return: bool,
    /// The id of a complete event was handed over, its data not yet.
    event_is_pending: bool,
    /// Something has been read, so that there is no byte order mark any more.
    begun: bool,
}

impl Parser {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        let bytes = if self.after_return { bytes.strip_prefix(b"\n").unwrap_or(bytes) } else { bytes };
        self.unparsed.extend_from_slice(bytes);
        self.after_return = *last == b'\r';
        // A return ends its line at once, but sseer would wait to see whether a line feed follows.
        if self.after_return {
            self.unparsed.push(b'\n');
        }
    }

    /// Hands over what is complete, until the reader stops with a value.
    pub(crate) fn each<T>(
        &mut self,
        on_found: &mut impl FnMut(Found<'_>) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        let unparsed = std::mem::take(&mut self.unparsed);
        let mut rest = unparsed.as_slice();
        let mut value = if self.event_is_pending { self.dispatch_event(on_found) } else { None };
        while value.is_none() {
            if !self.begun
                && let Some(after) = rest.strip_prefix(BYTE_ORDER_MARK)
            {
                (rest, self.begun) = (after, true);
            }
            let Some((line, after)) = parse_line(rest) else { break };
            (rest, self.begun) = (after, true);
            value = self.take_line(line, on_found);
        }
        self.unparsed = rest.to_vec();
        let kept = self.unparsed.len() + self.data.len() + self.id.as_ref().map_or(0, String::len);
        if kept > MAX_EVENT_BYTES { Err(Fault::TooBig(kept as u64)) } else { Ok(value) }
    }

    fn take_line<T>(
        &mut self,
        line: RawEventLine<'_>,
        on_found: &mut impl FnMut(Found<'_>) -> Option<T>,
    ) -> Option<T> {
        let (name, value) = match line {
            RawEventLine::Empty => return self.dispatch(on_found),
            RawEventLine::Comment => return on_found(Found::Comment),
            RawEventLine::Field { field_name, field_value } => (field_name, field_value.unwrap_or_default()),
        };
        match name {
            b"data" => {
                self.data.push_str(&String::from_utf8_lossy(value));
                self.data.push('\n');
            }
            b"id" if !value.contains(&0) => self.id = Some(String::from_utf8_lossy(value).into_owned()),
            // The type of an event and the pause before a reconnect matter to pages.
            _ => {}
        }
        None
    }

    /// An event is complete. Its id counts even if it has no data.
    fn dispatch<T>(&mut self, on_found: &mut impl FnMut(Found<'_>) -> Option<T>) -> Option<T> {
        self.event_is_pending = true;
        let id = self.id.take();
        match id.and_then(|id| on_found(Found::Id(&id))) {
            Some(value) => Some(value),
            None => self.dispatch_event(on_found),
        }
    }

    fn dispatch_event<T>(&mut self, on_found: &mut impl FnMut(Found<'_>) -> Option<T>) -> Option<T> {
        self.event_is_pending = false;
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
            parser.push(piece);
            let found = parser.each(&mut |found| {
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
        parser.push(&long);
        let found = parser.each(&mut |_| None::<()>);
        assert!(matches!(found, Err(Fault::TooBig(_))));
    }

    #[test]
    fn a_carriage_return_ends_its_line_at_once() {
        let mut parser = Parser::default();
        let mut found = |bytes: &[u8]| {
            parser.push(bytes);
            let event = parser.each(&mut |found| Some(matches!(found, Found::Event("a"))));
            event.expect("it is short")
        };
        assert_eq!(found(b"data: a\r\r"), Some(true));
        assert_eq!(found(b"\n"), None, "it belongs to the return");
        assert_eq!(found(b"\n"), None);
        assert_eq!(found(b"data: a\n\n"), Some(true));
    }

    #[test]
    fn the_rest_is_handed_over_after_a_stop() {
        let mut parser = Parser::default();
        parser.push(b"id: 1\ndata: a\n\n: b\ndata: c\n\ndata: ");
        let mut all = Vec::new();
        while let Some(found) = parser.each(&mut |found| Some(format!("{found:?}"))).expect("it is short") {
            all.push(found);
        }
        assert_eq!(all, [r#"Id("1")"#, r#"Event("a")"#, "Comment", r#"Event("c")"#]);
        parser.push(b"d\n\n");
        assert_eq!(parser.each(&mut |found| Some(found == Found::Event("d"))), Ok(Some(true)));
        assert!(parser.unparsed.is_empty() && parser.data.is_empty());
    }
}
