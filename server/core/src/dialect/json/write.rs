//! Conversion of responses, events and messages to the objects on the wire.

use std::borrow::Cow;
use std::time::Duration;

use super::wire::{Gap, Goaway, Hello, Ping, Reply, ReplyOutcome, ServerMessage, Subscribed, Unsubscribed};
use super::{Json, VERSION};
use crate::dialect::{ByPattern, Encoded, Encoding, Response, ServerEvent};
use crate::message::{Content, ContentKind, JsonString, Message, Stamp};

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
            } => Self::Hello(Hello {
                version: VERSION,
                session: borrowed(session),
                resume: borrowed(resume),
                recovered: *recovered,
                seq: *seq,
                ping_interval_ms: millis(*ping_interval),
                pong_timeout_ms: millis(*pong_timeout),
                reconnect_window_ms: millis(*reconnect_window),
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
    text.push_str("}}");
    text
}

fn push_string(text: &mut String, string: &str) {
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

/// Beginning of a message. The seq comes first, as in `{"message":{"seq":57`, so that the remainder is the
/// same for every subscriber:
/// `,"channel":"news","offset":42,"user":"alice","at_ms":1700000000000,"data":{"any":"json"}}}`. A join or
/// leave message has `joined` or `left` instead of `data`.
const BEFORE_SEQ: &str = r#"{"message":{"seq":"#;
const BEFORE_USER: &str = r#","user":"#;
const BEFORE_AT: &str = r#","at_ms":"#;
const AFTER_DATA: &str = "}}";

fn before_data(kind: ContentKind) -> &'static str {
    match kind {
        ContentKind::Data => r#","data":"#,
        ContentKind::Joined => r#","joined":"#,
        ContentKind::Left => r#","left":"#,
    }
}

/// Text before the channel's epoch in a message received through a pattern. Such a message has additional
/// fields between the seq and the remainder: `,"pattern":{"name":"/a/*","epoch":"e","offset":7},"epoch":"e"`.
const BEFORE_CHANNEL_EPOCH: &str = r#"},"epoch":""#;
const AFTER_CHANNEL_EPOCH: &str = r#"""#;

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

impl Encoding for Json {
    fn encode(message: &Message<'_>) -> Encoded<Json> {
        let Message { channel, offset, at_ms, content: Content { kind, user, data, .. }, .. } = message;
        let mut number = itoa::Buffer::new();
        let mut before = r#","channel":"#.to_owned();
        push_string(&mut before, channel);
        before.push_str(r#","offset":"#);
        before.push_str(number.format(*offset));
        if let Some(user) = user {
            before.push_str(BEFORE_USER);
            push_string(&mut before, user);
        }
        if let Some(at_ms) = at_ms {
            before.push_str(BEFORE_AT);
            before.push_str(number.format(*at_ms));
        }
        before.push_str(before_data(*kind));
        Encoded::around(&before, data, AFTER_DATA)
    }

    fn stamp_before_data(before: &str) -> Stamp<'_> {
        // The server writes the field name of the data last, so only a suffix match is reliable.
        let stripped = |kind| Some((kind, before.strip_suffix(before_data(kind))?));
        let kinds = [ContentKind::Data, ContentKind::Joined, ContentKind::Left];
        let (kind, before) = kinds.into_iter().find_map(stripped).unwrap_or((ContentKind::Data, before));
        let (before_number, number) =
            before.split_at(before.trim_end_matches(|c: char| c.is_ascii_digit()).len());
        // The number is the time only if the field name precedes it. Otherwise it is the offset, or part of a
        // string, which ends with a quote.
        let (before, at_ms) = match before_number.strip_suffix(BEFORE_AT) {
            Some(before) => (before, number.parse().ok()),
            None => (before, None),
        };
        // The last match is the field name, because quotes within JSON strings are escaped by a backslash.
        let user_at = before.rfind(BEFORE_USER).filter(|_| before.ends_with('"'));
        let user = user_at.map(|at| JsonString::from_encoded(&before[at + BEFORE_USER.len()..]));
        Stamp { kind, user, at_ms }
    }

    fn encode_pattern(name: &str, epoch: &str) -> Box<str> {
        let name = serde_json::to_string(name).expect("serializing strings cannot fail");
        format!(r#","pattern":{{"name":{name},"epoch":"{epoch}","offset":"#).into()
    }

    fn message_len(encoded: &str, seq: u64, by: Option<ByPattern<'_>>) -> usize {
        let by = by.map_or(0, |ByPattern { pattern, offset, channel_epoch }| {
            let around = BEFORE_CHANNEL_EPOCH.len() + AFTER_CHANNEL_EPOCH.len();
            pattern.len() + digits(offset) + channel_epoch.len() + around
        });
        BEFORE_SEQ.len() + digits(seq) + by + encoded.len()
    }

    fn write_message(encoded: &str, seq: u64, by: Option<ByPattern<'_>>, out: &mut Vec<u8>) {
        let mut number = itoa::Buffer::new();
        out.extend_from_slice(BEFORE_SEQ.as_bytes());
        out.extend_from_slice(number.format(seq).as_bytes());
        if let Some(ByPattern { pattern, offset, channel_epoch }) = by {
            out.extend_from_slice(pattern.as_bytes());
            out.extend_from_slice(number.format(offset).as_bytes());
            out.extend_from_slice(BEFORE_CHANNEL_EPOCH.as_bytes());
            out.extend_from_slice(channel_epoch.as_bytes());
            out.extend_from_slice(AFTER_CHANNEL_EPOCH.as_bytes());
        }
        out.extend_from_slice(encoded.as_bytes());
    }
}
