//! Parser for event streams, section 9.2.6 of the HTML standard. The sseer crate splits and classifies lines;
//! it also reports comments, and leaves UTF-8 decoding to its user. This module assembles events from the
//! lines.

use sseer::parser::{RawEventLine, parse_line};

use crate::transport::websocket::ProtocolFault;

/// Size limit for an event.
const MAX_EVENT_BYTES: usize = 1 << 20;
const BYTE_ORDER_MARK: &[u8] = "\u{FEFF}".as_bytes();

/// Item of an event stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StreamItem<'a> {
    /// New last event id. It precedes the event to which it belongs.
    Id(&'a str),
    /// Data of an event.
    Event(&'a str),
    /// A comment, which servers send as a keep-alive.
    Comment,
}

/// Extracts events from a stream. Buffers bytes only while a line or an event is incomplete, or after the
/// reader has stopped.
#[derive(Debug, Default)]
pub(crate) struct EventParser {
    unparsed: Vec<u8>,
    /// Data of the current event. Each line includes its line break.
    data: String,
    id: Option<String>,
    /// Whether the last byte was a carriage return. A line feed that follows belongs to it.
    after_return: bool,
    /// Whether the id of a complete event has been passed on, but its data has not.
    event_is_pending: bool,
    /// Whether something has been read, so that a byte order mark is no longer skipped.
    has_begun: bool,
}

impl EventParser {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        let bytes = if self.after_return { bytes.strip_prefix(b"\n").unwrap_or(bytes) } else { bytes };
        self.unparsed.extend_from_slice(bytes);
        self.after_return = *last == b'\r';
        // Add a line feed, because a carriage return ends its line immediately, but sseer would wait to see
        // whether a line feed follows.
        if self.after_return {
            self.unparsed.push(b'\n');
        }
    }

    /// Passes complete items to `on_found`, until it returns a value.
    pub(crate) fn each<T>(
        &mut self,
        on_found: &mut impl FnMut(StreamItem<'_>) -> Option<T>,
    ) -> Result<Option<T>, ProtocolFault> {
        let unparsed = std::mem::take(&mut self.unparsed);
        let mut rest = unparsed.as_slice();
        let mut value = if self.event_is_pending { self.dispatch_event(on_found) } else { None };
        while value.is_none() {
            if !self.has_begun
                && let Some(after) = rest.strip_prefix(BYTE_ORDER_MARK)
            {
                (rest, self.has_begun) = (after, true);
            }
            let Some((line, after)) = parse_line(rest) else { break };
            (rest, self.has_begun) = (after, true);
            value = self.take_line(line, on_found);
        }
        self.unparsed = rest.to_vec();
        let buffered = self.unparsed.len() + self.data.len() + self.id.as_ref().map_or(0, String::len);
        if buffered > MAX_EVENT_BYTES { Err(ProtocolFault::TooBig(buffered as u64)) } else { Ok(value) }
    }

    fn take_line<T>(
        &mut self,
        line: RawEventLine<'_>,
        on_found: &mut impl FnMut(StreamItem<'_>) -> Option<T>,
    ) -> Option<T> {
        let (name, value) = match line {
            RawEventLine::Empty => return self.dispatch(on_found),
            RawEventLine::Comment => return on_found(StreamItem::Comment),
            RawEventLine::Field { field_name, field_value } => (field_name, field_value.unwrap_or_default()),
        };
        match name {
            b"data" => {
                self.data.push_str(&String::from_utf8_lossy(value));
                self.data.push('\n');
            }
            b"id" if !value.contains(&0) => self.id = Some(String::from_utf8_lossy(value).into_owned()),
            // Ignore the event type and the reconnect delay, which matter only to browsers.
            _ => {}
        }
        None
    }

    /// Completes an event. Its id counts even if it has no data.
    fn dispatch<T>(&mut self, on_found: &mut impl FnMut(StreamItem<'_>) -> Option<T>) -> Option<T> {
        self.event_is_pending = true;
        let id = self.id.take();
        match id.and_then(|id| on_found(StreamItem::Id(&id))) {
            Some(value) => Some(value),
            None => self.dispatch_event(on_found),
        }
    }

    fn dispatch_event<T>(&mut self, on_found: &mut impl FnMut(StreamItem<'_>) -> Option<T>) -> Option<T> {
        self.event_is_pending = false;
        let data = std::mem::take(&mut self.data);
        if data.is_empty() {
            None
        } else {
            on_found(StreamItem::Event(data.strip_suffix('\n').unwrap_or(&data)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(stream: &[u8], piece: usize) -> Vec<String> {
        let mut parser = EventParser::default();
        let mut all = Vec::new();
        for piece in stream.chunks(piece) {
            parser.push(piece);
            let found = parser.each(&mut |found| {
                all.push(match found {
                    StreamItem::Id(id) => format!("id {id}"),
                    StreamItem::Event(data) => data.to_owned(),
                    StreamItem::Comment => "comment".to_owned(),
                });
                None::<()>
            });
            assert_eq!(found, Ok(None));
        }
        all
    }

    /// Tests examples from the standard, and edge cases.
    #[test]
    fn streams_are_parsed_as_specified() {
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
    fn event_size_is_limited() {
        let mut parser = EventParser::default();
        let long = vec![b'x'; MAX_EVENT_BYTES + 1];
        parser.push(&long);
        let found = parser.each(&mut |_| None::<()>);
        assert!(matches!(found, Err(ProtocolFault::TooBig(_))));
    }

    #[test]
    fn a_carriage_return_ends_its_line_at_once() {
        let mut parser = EventParser::default();
        let mut found = |bytes: &[u8]| {
            parser.push(bytes);
            let event = parser.each(&mut |found| Some(matches!(found, StreamItem::Event("a"))));
            event.expect("the event is short")
        };
        assert_eq!(found(b"data: a\r\r"), Some(true));
        assert_eq!(found(b"\n"), None, "the line feed belongs to the carriage return");
        assert_eq!(found(b"\n"), None);
        assert_eq!(found(b"data: a\n\n"), Some(true));
    }

    #[test]
    fn remaining_items_follow_after_a_stop() {
        let mut parser = EventParser::default();
        parser.push(b"id: 1\ndata: a\n\n: b\ndata: c\n\ndata: ");
        let mut all = Vec::new();
        while let Some(found) =
            parser.each(&mut |found| Some(format!("{found:?}"))).expect("the event is short")
        {
            all.push(found);
        }
        assert_eq!(all, [r#"Id("1")"#, r#"Event("a")"#, "Comment", r#"Event("c")"#]);
        parser.push(b"d\n\n");
        assert_eq!(parser.each(&mut |found| Some(found == StreamItem::Event("d"))), Ok(Some(true)));
        assert!(parser.unparsed.is_empty() && parser.data.is_empty());
    }
}
