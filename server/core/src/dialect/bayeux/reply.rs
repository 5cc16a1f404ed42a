use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::{Advice, Missed};
use crate::dialect::{CommandError, ErrorCode};
use crate::message::{CompactJson, Kind, Stamp};

/// What a reply repeats of its message.
#[derive(Clone, Debug, Default)]
pub struct ReplyTo {
    /// Empty, if the message had none.
    channel: Box<str>,
    id: Option<Box<RawValue>>,
    subscription: Option<Box<RawValue>>,
    /// There is no such session.
    pub(super) is_of_no_session: bool,
}

impl ReplyTo {
    pub(super) fn new(channel: &str, id: Option<&RawValue>, subscription: Option<&RawValue>) -> Self {
        Self {
            channel: channel.into(),
            id: id.map(ToOwned::to_owned),
            subscription: subscription.map(ToOwned::to_owned),
            is_of_no_session: false,
        }
    }

    pub(super) fn of_no_session(self) -> Self {
        Self { is_of_no_session: true, ..self }
    }

    /// The text of an array with what the backend has answered, and the reply. CometD's `remoteCall` knows its answer by the id, other clients listen to the
    /// channel.
    ///
    /// # Panics
    /// When `data` is no JSON.
    pub(super) fn answered(&self, data: &str) -> String {
        let data = serde_json::from_str(data).expect("the backend's answer was read as JSON");
        let answer = Answer { channel: &self.channel, id: self.id.as_deref(), data };
        let answer = serde_json::to_string(&answer).expect("our own types have string keys and serialize");
        format!("[{answer},{}]", self.reply().succeeded().to_json())
    }

    /// A reply that says nothing yet.
    #[must_use]
    pub fn reply(&self) -> Reply<'_> {
        Reply {
            channel: &self.channel,
            id: self.id.as_deref(),
            subscription: self.subscription.as_deref(),
            ..Reply::default()
        }
    }
}

/// What comes back on the channel of a message.
#[derive(Serialize)]
struct Answer<'a> {
    channel: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RawValue>,
    data: &'a RawValue,
}

/// The reply to one message.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reply<'a> {
    /// The message's.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub channel: &'a str,
    /// The message's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<&'a RawValue>,
    /// The message's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription: Option<&'a RawValue>,
    /// Whether it was done.
    pub successful: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// To a handshake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<&'static str>,
    /// To a handshake: the session's resume token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<&'a str>,
    /// To a handshake.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub supported_connection_types: &'a [&'static str],
    /// What the client is to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<Advice>,
    /// Beyond the specification.
    #[serde(skip_serializing_if = "Extensions::is_empty")]
    pub ext: Extensions<'a>,
}

/// What clients with extensions look for.
#[derive(Debug, Default, Serialize)]
pub struct Extensions<'a> {
    /// Of the acknowledgement extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack: Option<Ack>,
    /// Our own.
    #[serde(skip_serializing_if = "EnckeExtension::is_empty")]
    pub encke: EnckeExtension<'a>,
}

impl Extensions<'_> {
    fn is_empty(&self) -> bool {
        self.ack.is_none() && self.encke.is_empty()
    }
}

/// What a client has missed.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub struct EnckeExtension<'a>(pub Option<&'a Missed>);

impl EnckeExtension<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_none_or(Missed::is_empty)
    }
}

/// What the acknowledgement extension says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Ack {
    /// To a handshake: that it is there.
    Supported(bool),
    /// To a connect: what came with it. The client acknowledges that with its next.
    UpTo(u64),
}

impl Reply<'_> {
    /// It was done.
    #[must_use]
    pub fn succeeded(self) -> Self {
        Self { successful: true, ..self }
    }

    /// It was refused.
    #[must_use]
    pub fn failed(self, error: &CommandError) -> Self {
        self.failed_with(code(&error.code), &error.message)
    }

    /// There is no such session: the client is to open a new one.
    #[must_use]
    pub fn of_no_session(self) -> Self {
        let advice = Some(Advice::handshake(Duration::ZERO));
        Self { advice, ..self.failed_with(402, "the session is unknown") }
    }

    /// The client says that it has what was never sent: it is to open a new session.
    #[must_use]
    pub fn beyond_what_was_sent(self) -> Self {
        let advice = Some(Advice::handshake(Duration::ZERO));
        Self { advice, ..self.failed_with(400, "ext.ack is beyond what was sent") }
    }

    /// It was refused, with a code of the specification.
    #[must_use]
    pub fn failed_with(self, code: u16, message: &str) -> Self {
        // What is between the colons are names, of which the channel is the only one that is no secret.
        let names = if self.channel.starts_with("/meta/") { "" } else { self.channel };
        let error = Some(format!("{code}:{names}:{message}"));
        Self { error, successful: false, ..self }
    }

    /// The text of an array with this reply alone.
    #[must_use]
    pub fn to_array(&self) -> String {
        format!("[{}]", self.to_json())
    }

    /// The text.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("our own types have string keys and serialize")
    }
}

/// The code of the specification, or the status of HTTP that means the same.
fn code(code: &ErrorCode) -> u16 {
    match code {
        ErrorCode::Malformed | ErrorCode::BadChannel | ErrorCode::Backend(_) => 400,
        ErrorCode::Unauthorized => 401,
        ErrorCode::Forbidden => 403,
        ErrorCode::UnknownCommand => 404,
        ErrorCode::TooLarge => 413,
        ErrorCode::Limit | ErrorCode::RateLimited => 429,
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
/// Of a message that tells a join or a leave: it must have some, and code that looks for something in it finds nothing.
const NO_DATA: &str = "{}";
/// Around the name of a kind.
const AROUND_KIND: usize = 3;
/// Of a number of 64 bits.
const MOST_DIGITS: usize = 20;
const END: &str = "}";

/// About as long as [`write_event`] writes: names with characters that are escaped take more.
#[must_use]
pub fn event_len(channel: &str, data: &CompactJson<'_>, stamp: Stamp<'_>) -> usize {
    let user = stamp.user.map_or(0, |user| BEFORE_USER.len() + user.as_json().len() + 1);
    let at_ms = stamp.at_ms.map_or(0, |_| BEFORE_AT.len() + MOST_DIGITS);
    let who = match stamp.kind {
        Kind::Data => 0,
        kind => NO_DATA.len() + kind.name().len() + AROUND_KIND + 1,
    };
    let stamp = user + at_ms + who;
    let stamp = if stamp == 0 { 0 } else { BEFORE_STAMP.len() + stamp + AFTER_STAMP.len() };
    BEFORE_CHANNEL.len() + channel.len() + 2 + BEFORE_DATA.len() + data.as_str().len() + stamp + END.len()
}

/// Appends a message of a channel, with what the server says of it.
///
/// # Panics
/// Never.
pub fn write_event(channel: &str, data: &CompactJson<'_>, stamp: Stamp<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(BEFORE_CHANNEL.as_bytes());
    serde_json::to_writer(&mut *out, channel).expect("memory takes everything");
    out.extend_from_slice(BEFORE_DATA.as_bytes());
    let is_data = stamp.kind == Kind::Data;
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
    if kind != Kind::Data {
        if user.is_some() || at_ms.is_some() {
            out.push(b',');
        }
        for part in ["\"", kind.name(), "\":", data.as_str()] {
            out.extend_from_slice(part.as_bytes());
        }
    }
    out.extend_from_slice(AFTER_STAMP.as_bytes());
}
