//! Parser for event streams, section 9.2.6 of the HTML standard. The sseer crate splits and classifies lines;
//! it also reports comments, and leaves UTF-8 decoding to its user. This module assembles events from the
//! lines.

use std::mem;

use sseer::parser::{RawEventLine, parse_line};

use super::websocket::ProtocolFault;
use crate::event::{EventQueue, QueuedEvent};

/// Size limit for an event.
const MAX_EVENT_BYTES: usize = 1 << 20;
const BYTE_ORDER_MARK: &[u8] = "\u{FEFF}".as_bytes();

/// Extracts events from a stream. Buffers bytes only while a line or an event is incomplete.
#[derive(Debug, Default)]
pub(super) struct EventParser {
    unparsed: Vec<u8>,
    /// Data of the current event. Each line includes its line break.
    data: String,
    id: Option<String>,
    /// Whether the last byte was a carriage return. A line feed that follows belongs to it.
    after_return: bool,
    /// Whether a line has been read, so that a byte order mark is no longer skipped.
    has_begun: bool,
}

impl EventParser {
    /// Appends the events that these bytes complete to `events`. Comments, which servers send as a keep-alive,
    /// count as pings. The id of an event precedes it.
    pub(super) fn push(&mut self, bytes: &[u8], events: &mut EventQueue) -> Result<(), ProtocolFault> {
        let Some(last) = bytes.last() else { return Ok(()) };
        let bytes = if self.after_return { bytes.strip_prefix(b"\n").unwrap_or(bytes) } else { bytes };
        self.unparsed.extend_from_slice(bytes);
        self.after_return = *last == b'\r';
        // Add a line feed, because a carriage return ends its line immediately, but sseer would wait to see
        // whether a line feed follows.
        if self.after_return {
            self.unparsed.push(b'\n');
        }
        let unparsed = mem::take(&mut self.unparsed);
        let mut rest = unparsed.as_slice();
        if !self.has_begun {
            rest = rest.strip_prefix(BYTE_ORDER_MARK).unwrap_or(rest);
        }
        while let Some((line, after)) = parse_line(rest) {
            (rest, self.has_begun) = (after, true);
            self.take_line(line, events);
        }
        self.unparsed = rest.to_vec();
        let buffered = self.unparsed.len() + self.data.len() + self.id.as_ref().map_or(0, String::len);
        if buffered > MAX_EVENT_BYTES { Err(ProtocolFault::TooBig(buffered as u64)) } else { Ok(()) }
    }

    fn take_line(&mut self, line: RawEventLine<'_>, events: &mut EventQueue) {
        match line {
            RawEventLine::Comment => events.push(QueuedEvent::Ping),
            RawEventLine::Field { field_name: b"data", field_value } => {
                self.data.push_str(&String::from_utf8_lossy(field_value.unwrap_or_default()));
                self.data.push('\n');
            }
            RawEventLine::Field { field_name: b"id", field_value } => {
                let value = field_value.unwrap_or_default();
                if !value.contains(&0) {
                    self.id = Some(String::from_utf8_lossy(value).into_owned());
                }
            }
            // Ignore the event type and the reconnect delay, which matter only to browsers.
            RawEventLine::Field { .. } => {}
            // Completes an event. Its id counts even if it has no data.
            RawEventLine::Empty => {
                if let Some(id) = self.id.take() {
                    events.push(QueuedEvent::Id(id));
                }
                let mut data = mem::take(&mut self.data);
                if data.pop().is_some() {
                    events.push(QueuedEvent::Text(data));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::event::ClientEvent;

    /// Passes the pieces to the parser, and returns the events that they complete.
    fn push<'a>(parser: &mut EventParser, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let (mut events, mut all) = (EventQueue::default(), Vec::new());
        for piece in pieces {
            parser.push(piece, &mut events).expect("the event is short");
        }
        let _ = events.deliver(&mut |event| {
            all.push(match event {
                ClientEvent::Id(id) => format!("id {id}"),
                ClientEvent::Text(data) => data.to_owned(),
                _ => "comment".to_owned(),
            });
            ControlFlow::<()>::Continue(())
        });
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
                let found = push(&mut EventParser::default(), stream.chunks(piece));
                assert_eq!(found, expected, "{:?} by {piece}", stream.escape_ascii());
            }
        }
    }

    #[test]
    fn event_size_is_limited() {
        let found = EventParser::default().push(&vec![b'x'; MAX_EVENT_BYTES + 1], &mut EventQueue::default());
        assert!(matches!(found, Err(ProtocolFault::TooBig(_))));
    }

    #[test]
    fn a_carriage_return_ends_its_line_at_once() {
        let mut parser = EventParser::default();
        let mut found = |bytes: &'static [u8]| push(&mut parser, [bytes]);
        assert_eq!(found(b"data: a\r\r"), ["a"]);
        assert!(found(b"\n").is_empty(), "the line feed belongs to the carriage return");
        assert_eq!(found(b"data: a\n\n"), ["a"]);
    }
}
