//! Limits the size of each reply and push of Redis, which the crate `redis` reads into memory as a whole.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Limit for replies that do not contain a log.
const BASE_BYTES: usize = 64 * 1024 * 1024;

/// Size of a log's entry without its message: field names, times and the framing.
const ENTRY_BYTES: usize = 16 * 1024;

/// Memory for a value of a reply, in addition to its bytes.
const VALUE_BYTES: usize = 64;

/// Returns the maximum size of a reply: more than the size of a log with `history_messages` messages.
pub fn max_reply_bytes(history_messages: usize, max_message: usize) -> usize {
    history_messages.saturating_mul(max_message.saturating_add(ENTRY_BYTES)).saturating_add(BASE_BYTES)
}

/// Stream that fails when a reply exceeds the limit.
#[derive(Debug)]
pub(super) struct LimitedReplies<S> {
    stream: S,
    meter: ReplyMeter,
}

impl<S> LimitedReplies<S> {
    pub(super) fn new(stream: S, limit: usize) -> Self {
        Self { stream, meter: ReplyMeter { limit, bytes: 0, values: 0, part: Part::Kind } }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedReplies<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        Poll::Ready(self.meter.count(&buf.filled()[before..]).inspect_err(|error| {
            tracing::error!(%error, "the connection to Redis is closed");
        }))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LimitedReplies<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Measures replies by the lengths that RESP3 states. It accepts only lengths that every parser reads in the
/// same way; otherwise, its measure could be another than that of the crate `redis`.
#[derive(Debug)]
struct ReplyMeter {
    limit: usize,
    /// Size of the current reply so far.
    bytes: usize,
    /// Number of values of the current reply that have not begun yet.
    values: usize,
    part: Part,
}

/// Part of a reply that the next byte belongs to.
#[derive(Debug)]
enum Part {
    /// First byte of a value.
    Kind,
    /// Rest of the first line of a value of this kind.
    Line(u8, Length),
    /// Contents of a string, with this many bytes left.
    Contents(usize),
}

/// Length in the first line of a value.
#[derive(Clone, Copy, Debug, Default)]
struct Length {
    number: usize,
    digits: u32,
    is_negative: bool,
    /// Whether the line has other characters.
    is_invalid: bool,
    /// Whether the last character was CR, which ends the line together with LF.
    is_ending: bool,
}

impl Length {
    fn with(mut self, byte: u8) -> Self {
        self.is_invalid |= self.is_ending;
        match byte {
            b'\r' => self.is_ending = true,
            b'0'..=b'9' => {
                self.number = self.number.saturating_mul(10).saturating_add(usize::from(byte - b'0'));
                self.digits = self.digits.saturating_add(1);
            }
            b'-' if self.digits == 0 && !self.is_negative => self.is_negative = true,
            _ => self.is_invalid = true,
        }
        self
    }

    /// Returns the length, or 0 for `-1`, which means that there is no value.
    fn value(self, may_be_absent: bool) -> io::Result<Option<usize>> {
        let is_absent = self.is_negative && self.number == 1 && self.digits == 1;
        if self.is_invalid || self.digits == 0 || self.is_negative && !(is_absent && may_be_absent) {
            return Err(io::Error::other("invalid length in a reply of Redis"));
        }
        Ok((!is_absent).then_some(self.number))
    }
}

impl ReplyMeter {
    /// Counts bytes received.
    fn count(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while let Some((&byte, rest)) = bytes.split_first() {
            let mut taken = 1;
            self.part = match self.part {
                Part::Kind => {
                    if self.values == 0 {
                        (self.bytes, self.values) = (0, 1);
                    }
                    Part::Line(byte, Length::default())
                }
                Part::Line(kind, length) if byte == b'\n' && length.is_ending => self.begin(kind, length)?,
                // Text may contain a CR that does not end the line.
                Part::Line(kind, length) if length.is_ending && byte != b'\r' => {
                    Part::Line(kind, Length { is_ending: false, is_invalid: true, ..length })
                }
                Part::Line(kind, length) => Part::Line(kind, length.with(byte)),
                Part::Contents(left) => {
                    taken = left.min(rest.len() + 1);
                    if taken == left { Part::Kind } else { Part::Contents(left - taken) }
                }
            };
            self.bytes = self.bytes.saturating_add(taken);
            self.check(0)?;
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// Handles the end of a value's first line.
    fn begin(&mut self, kind: u8, length: Length) -> io::Result<Part> {
        let may_be_absent = matches!(kind, b'$' | b'*' | b'~' | b'>');
        let is_counted = matches!(kind, b'$' | b'!' | b'=' | b'*' | b'~' | b'>' | b'%' | b'|');
        let length = if is_counted { length.value(may_be_absent)? } else { None };
        let (contents, values) = match (kind, length) {
            (_, None) => (None, 0),
            (b'$' | b'!' | b'=', Some(bytes)) => (Some(bytes.saturating_add(2)), 0),
            (b'*' | b'~' | b'>', Some(values)) => (None, values),
            (b'%', Some(pairs)) => (None, pairs.saturating_mul(2)),
            (_, Some(pairs)) => (None, pairs.saturating_mul(2).saturating_add(1)),
        };
        self.bytes = self.bytes.saturating_add(VALUE_BYTES);
        self.values = (self.values - 1).saturating_add(values);
        self.check(contents.unwrap_or(0).saturating_add(self.values.saturating_mul(VALUE_BYTES)))?;
        Ok(contents.map_or(Part::Kind, Part::Contents))
    }

    /// Fails if the current reply exceeds the limit once `announced` bytes have arrived.
    fn check(&self, announced: usize) -> io::Result<()> {
        if self.bytes.saturating_add(announced) <= self.limit {
            return Ok(());
        }
        Err(io::Error::other(format!("a reply of Redis exceeds the limit of {} bytes", self.limit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 1000;

    /// Feeds a reply in pieces of `size`, repeatedly, to a meter. Returns whether the limit holds.
    fn fits(reply: &[u8], size: usize) -> bool {
        let mut meter = LimitedReplies::new((), LIMIT).meter;
        (0..100).all(|_| reply.chunks(size).all(|piece| meter.count(piece).is_ok()))
    }

    #[test]
    fn each_reply_is_limited_by_itself() {
        let long = |bytes: usize| format!("${bytes}\r\n{}\r\n", "*".repeat(bytes));
        let cases = [
            (long(900), true),
            (long(1000), false),
            ("+OK\r\n:-12\r\n$-1\r\n*-1\r\n_\r\n,1.5\r\n#t\r\n(12345678901234567890\r\n".to_owned(), true),
            (format!("+{}\r\n", "1".repeat(900)), true),
            (format!("+{}", "a".repeat(1001)), false),
            // Nested values belong to one reply.
            (format!("*2\r\n%1\r\n+a\r\n{}:1\r\n", long(300)), true),
            (format!(">2\r\n*1\r\n{}{}", long(500), long(400)), false),
            ("|1\r\n+a\r\n+b\r\n+the data\r\n".to_owned(), true),
            // Lengths that are only announced.
            ("$1000".to_owned() + "\r\n", false),
            ("*99999999999999999999999\r\n".to_owned(), false),
            (format!("*2\r\n*9\r\n{}", ":1\r\n".repeat(10)), true),
            (format!("*13\r\n{}", ":1\r\n".repeat(13)), true),
            (format!("*15\r\n{}", ":1\r\n".repeat(15)), false),
        ];
        for (reply, expected) in cases {
            for size in [1, 3, 4096] {
                assert_eq!(fits(reply.as_bytes(), size), expected, "{reply:.40} by {size}");
            }
        }
    }

    #[test]
    fn the_error_names_the_limit() {
        let error = LimitedReplies::new((), LIMIT).meter.count(b"$1000\r\n").expect_err("too long");
        assert_eq!(error.to_string(), "a reply of Redis exceeds the limit of 1000 bytes");
        assert!(max_reply_bytes(256, 65_536) > 256 * 65_536);
    }
}
