use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::{Advice, MissedEvents};
use crate::dialect::{CommandError, ErrorCode};
use crate::message::{CompactJson, ContentKind, Stamp};

/// The fields of a message that its reply repeats.
#[derive(Clone, Debug, Default)]
pub struct ReplyTo {
    /// Channel of the message; empty if the message had none.
    channel: Box<str>,
    id: Option<Box<RawValue>>,
    subscription: Option<Box<RawValue>>,
    /// Whether the message's session does not exist.
    pub(super) is_unknown_session: bool,
}

impl ReplyTo {
    pub(super) fn new(channel: &str, id: Option<&RawValue>, subscription: Option<&RawValue>) -> Self {
        Self {
            channel: channel.into(),
            id: id.map(ToOwned::to_owned),
            subscription: subscription.map(ToOwned::to_owned),
            is_unknown_session: false,
        }
    }

    pub(super) fn unknown_session(self) -> Self {
        Self { is_unknown_session: true, ..self }
    }

    /// Returns an array of two messages: the data that the backend returned, and the reply. CometD's
    /// `remoteCall` matches its result by the id, whereas other clients listen on the channel.
    ///
    /// # Panics
    /// Panics if `data` is not valid JSON.
    pub(super) fn answered(&self, data: &str) -> String {
        let data = serde_json::from_str(data).expect("the backend's answer was validated as JSON");
        let answer = CallResult { channel: &self.channel, id: self.id.as_deref(), data };
        let answer = serde_json::to_string(&answer).expect("serializing our own types cannot fail");
        format!("[{answer},{}]", self.reply().succeeded().to_json())
    }

    /// Returns a reply with only the repeated fields.
    #[must_use]
    pub fn reply(&self) -> MessageReply<'_> {
        MessageReply {
            channel: &self.channel,
            id: self.id.as_deref(),
            subscription: self.subscription.as_deref(),
            ..MessageReply::default()
        }
    }
}

/// Data that the backend returned for a message, sent on the message's channel.
#[derive(Serialize)]
struct CallResult<'a> {
    channel: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RawValue>,
    data: &'a RawValue,
}

/// The reply to one message.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageReply<'a> {
    /// Channel of the message.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub channel: &'a str,
    /// Id of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<&'a RawValue>,
    /// Subscription of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription: Option<&'a RawValue>,
    /// Whether the request succeeded.
    pub successful: bool,
    /// Why the request failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Version of the protocol, in the reply to a handshake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<&'static str>,
    /// The session's resume token, in the reply to a handshake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<&'a str>,
    /// Names of the supported connection types, in the reply to a handshake.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub supported_connection_types: &'a [&'static str],
    /// How the client should continue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<Advice>,
    /// Fields beyond the specification.
    #[serde(skip_serializing_if = "Extensions::is_empty")]
    pub ext: Extensions<'a>,
}

/// Extension fields of a reply.
#[derive(Debug, Default, Serialize)]
pub struct Extensions<'a> {
    /// The acknowledgement extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack: Option<Ack>,
    /// Encke's own extension: events that the client missed.
    #[serde(skip_serializing_if = "has_none")]
    pub encke: Option<&'a MissedEvents>,
}

impl Extensions<'_> {
    fn is_empty(&self) -> bool {
        self.ack.is_none() && has_none(&self.encke)
    }
}

fn has_none(missed: &Option<&MissedEvents>) -> bool {
    missed.is_none_or(MissedEvents::is_empty)
}

/// Value of the acknowledgement extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Ack {
    /// Whether the extension is supported, in the reply to a handshake.
    Supported(bool),
    /// Seq of the last message sent, in the reply to a connect. The client acknowledges it in its next
    /// connect.
    UpTo(u64),
}

impl MessageReply<'_> {
    /// Marks the request as successful.
    #[must_use]
    pub fn succeeded(self) -> Self {
        Self { successful: true, ..self }
    }

    /// Marks the request as failed.
    #[must_use]
    pub fn failed(self, error: &CommandError) -> Self {
        self.failed_with(code(&error.code), &error.message)
    }

    /// Reports that the session does not exist, and advises the client to open a new one.
    #[must_use]
    pub fn unknown_session(self) -> Self {
        let advice = Some(Advice::handshake(Duration::ZERO));
        Self { advice, ..self.failed_with(402, "the session is unknown") }
    }

    /// Reports that the client acknowledged a message that was never sent, and advises it to open a new
    /// session.
    #[must_use]
    pub fn ack_out_of_range(self) -> Self {
        let advice = Some(Advice::handshake(Duration::ZERO));
        Self { advice, ..self.failed_with(400, "ext.ack is greater than the last seq sent") }
    }

    /// Marks the request as failed, with an error code defined by the specification.
    #[must_use]
    pub fn failed_with(self, code: u16, message: &str) -> Self {
        // The part between the colons lists arguments, and only the channel is safe to reveal.
        let names = if self.channel.starts_with("/meta/") { "" } else { self.channel };
        let error = Some(format!("{code}:{names}:{message}"));
        Self { error, successful: false, ..self }
    }

    /// Returns an array with only this reply, as JSON.
    #[must_use]
    pub fn to_array(&self) -> String {
        format!("[{}]", self.to_json())
    }

    /// Returns the reply as JSON.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("serializing our own types cannot fail")
    }
}

/// Returns the error code defined by the specification, or the corresponding HTTP status.
fn code(code: &ErrorCode) -> u16 {
    match code {
        ErrorCode::Malformed | ErrorCode::BadChannel | ErrorCode::Backend(_) => 400,
        ErrorCode::Unauthorized => 401,
        ErrorCode::Forbidden => 403,
        ErrorCode::UnknownCommand => 404,
        ErrorCode::TooLarge => 413,
        ErrorCode::Limit | ErrorCode::RateLimited => 429,
        ErrorCode::BackendError => 502,
        ErrorCode::Unavailable
        | ErrorCode::OutcomeUnknown
        | ErrorCode::Overloaded
        | ErrorCode::Draining
        | ErrorCode::Timeout => 503,
    }
}

const BEFORE_CHANNEL: &str = r#"{"channel":"#;
const BEFORE_DATA: &str = r#","data":"#;
const BEFORE_STAMP: &str = r#","ext":{"encke":{"#;
const BEFORE_USER: &str = r#""user":"#;
const BEFORE_AT: &str = r#""at_ms":"#;
const AFTER_STAMP: &str = "}}";
/// Data of a join or leave message. Bayeux requires data, and an empty object is harmless for code that looks
/// up fields.
const NO_DATA: &str = "{}";
/// Length of the two quotes and the colon around the name of a kind.
const AROUND_KIND: usize = 3;
/// Maximum number of digits in a `u64`.
const MAX_DIGITS: usize = 20;
const END: &str = "}";

/// Approximate number of bytes that [`write_event`] appends. Names with escaped characters take more.
#[must_use]
pub fn event_len(channel: &str, data: &CompactJson<'_>, stamp: Stamp<'_>) -> usize {
    let user = stamp.user.map_or(0, |user| BEFORE_USER.len() + user.as_json().len() + 1);
    let at_ms = stamp.at_ms.map_or(0, |_| BEFORE_AT.len() + MAX_DIGITS);
    let who = match stamp.kind {
        ContentKind::Data => 0,
        kind => NO_DATA.len() + kind.name().len() + AROUND_KIND + 1,
    };
    let stamp = user + at_ms + who;
    let stamp = if stamp == 0 { 0 } else { BEFORE_STAMP.len() + stamp + AFTER_STAMP.len() };
    BEFORE_CHANNEL.len() + channel.len() + 2 + BEFORE_DATA.len() + data.as_str().len() + stamp + END.len()
}

/// Appends a message of a channel with its metadata.
///
/// # Panics
/// Never.
pub fn write_event(channel: &str, data: &CompactJson<'_>, stamp: Stamp<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(BEFORE_CHANNEL.as_bytes());
    serde_json::to_writer(&mut *out, channel).expect("writing to memory cannot fail");
    out.extend_from_slice(BEFORE_DATA.as_bytes());
    let is_data = stamp.kind == ContentKind::Data;
    out.extend_from_slice(if is_data { data.as_str() } else { NO_DATA }.as_bytes());
    if stamp != Stamp::default() {
        write_stamp(stamp, data, out);
    }
    out.extend_from_slice(END.as_bytes());
}

fn write_stamp(Stamp { kind, user, at_ms }: Stamp<'_>, data: &CompactJson<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(BEFORE_STAMP.as_bytes());
    if let Some(user) = user {
        out.extend_from_slice(BEFORE_USER.as_bytes());
        out.extend_from_slice(user.as_json().as_bytes());
    }
    if let Some(at_ms) = at_ms {
        if user.is_some() {
            out.push(b',');
        }
        out.extend_from_slice(BEFORE_AT.as_bytes());
        out.extend_from_slice(itoa::Buffer::new().format(at_ms).as_bytes());
    }
    if kind != ContentKind::Data {
        if user.is_some() || at_ms.is_some() {
            out.push(b',');
        }
        for part in ["\"", kind.name(), "\":", data.as_str()] {
            out.extend_from_slice(part.as_bytes());
        }
    }
    out.extend_from_slice(AFTER_STAMP.as_bytes());
}
