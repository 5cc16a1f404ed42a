//! Conversion of responses, events and messages to the objects on the wire.

use std::borrow::Cow;
use std::time::Duration;

use super::VERSION;
use super::wire::{Gap, Goaway, Hello, Ping, Reply, ReplyOutcome, ServerMessage, Subscribed, Unsubscribed};
use crate::dialect::{Response, ServerEvent};

impl<'a> From<&'a ServerEvent<'_>> for ServerMessage<'a> {
    fn from(event: &'a ServerEvent<'_>) -> Self {
        match event {
            ServerEvent::Hello {
                session,
                resume,
                recovered,
                seq,
                ping_interval,
                pong_timeout,
                reconnect_window,
                positions,
            } => Self::Hello(Hello {
                version: VERSION,
                session: borrowed(session),
                resume: borrowed(resume),
                recovered: *recovered,
                seq: *seq,
                ping_interval_ms: millis(*ping_interval),
                pong_timeout_ms: millis(*pong_timeout),
                reconnect_window_ms: millis(*reconnect_window),
                positions: *positions,
            }),
            ServerEvent::Goaway { code, retry } => {
                Self::Goaway(Goaway { reason: code.reason().into(), retry_ms: millis(*retry) })
            }
            ServerEvent::Gap { seq, channel, epoch, range } => {
                let (from, to) = range.unzip();
                Self::Gap(Gap { seq: *seq, channel: borrowed(channel), epoch: borrowed(epoch), from, to })
            }
            ServerEvent::Subscribed { channel, epoch, offset } => Self::Subscribed(Subscribed {
                channel: borrowed(channel),
                epoch: borrowed(epoch),
                offset: *offset,
            }),
            ServerEvent::Unsubscribed { channel, reason } => {
                Self::Unsubscribed(Unsubscribed { channel: borrowed(channel), reason: borrowed(reason) })
            }
            ServerEvent::Ping { seq } => Self::Ping(Ping { seq: *seq }),
        }
    }
}

impl<'a> From<&'a Response<'_, u64>> for ServerMessage<'a> {
    fn from(response: &'a Response<'_, u64>) -> Self {
        let outcome = match &response.result {
            Ok(success) => ReplyOutcome::Ok(Cow::Borrowed(success)),
            Err(error) => ReplyOutcome::Error(Cow::Borrowed(error)),
        };
        Self::Reply(Reply { id: response.id, outcome })
    }
}

fn borrowed(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Writes the same text as [`ServerMessage::to_json`], using a fifth of the instructions. This is worthwhile
/// because every connection begins with a `hello`.
pub(super) fn hello(hello: &Hello<'_>) -> String {
    // Capacity for the field names and seven numbers.
    const AROUND: usize = 256;
    let mut text = String::with_capacity(AROUND + hello.session.len() + hello.resume.len());
    let mut number = itoa::Buffer::new();
    text.push_str(r#"{"hello":{"version":"#);
    text.push_str(number.format(hello.version));
    text.push_str(r#","session":"#);
    push_string(&mut text, &hello.session);
    text.push_str(r#","resume":"#);
    push_string(&mut text, &hello.resume);
    text.push_str(if hello.recovered { r#","recovered":true"# } else { r#","recovered":false"# });
    for (name, value) in [
        (r#","seq":"#, hello.seq),
        (r#","ping_interval_ms":"#, hello.ping_interval_ms),
        (r#","pong_timeout_ms":"#, hello.pong_timeout_ms),
        (r#","reconnect_window_ms":"#, hello.reconnect_window_ms),
    ] {
        text.push_str(name);
        text.push_str(number.format(value));
    }
    if hello.positions {
        text.push_str(r#","positions":true"#);
    }
    text.push_str("}}");
    text
}

pub(super) fn push_string(text: &mut String, string: &str) {
    // Check all bytes without an early exit, so that the compiler can vectorize the loop.
    let is_plain = |plain, byte: &u8| plain & (*byte >= b' ') & (*byte != b'"') & (*byte != b'\\');
    if string.as_bytes().iter().fold(true, is_plain) {
        text.push('"');
        text.push_str(string);
        text.push('"');
    } else {
        text.push_str(&serde_json::to_string(string).expect("serializing strings cannot fail"));
    }
}
