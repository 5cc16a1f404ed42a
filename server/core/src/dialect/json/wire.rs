//! The objects sent from the server to clients.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::dialect::json_fields::null_as_data;
use crate::dialect::{CommandError, Success};
use crate::message::SubscriberInfo;

/// One object from the server to a client: `{"hello":{..}}`, `{"reply":{..}}`, ...
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerMessage<'a> {
    /// The first object on every connection.
    #[serde(borrow)]
    Hello(Hello<'a>),
    /// The reply to a command.
    #[serde(borrow)]
    Reply(Reply<'a>),
    /// The server is about to close the connection; the client may reconnect after `retry_ms`.
    #[serde(borrow)]
    Goaway(Goaway<'a>),
    /// A message of a channel. The server writes these with [`super::Json`]'s encoding.
    #[serde(borrow)]
    Message(ChannelMessage<'a>),
    /// Messages that the client should have received but no longer can.
    #[serde(borrow)]
    Gap(Gap<'a>),
    /// A subscription that the client did not request has begun.
    #[serde(borrow)]
    Subscribed(Subscribed<'a>),
    /// A subscription has ended without the client's request.
    #[serde(borrow)]
    Unsubscribed(Unsubscribed<'a>),
    /// A heartbeat (`heartbeat=message`). The client answers it with a `pong` that has the same `seq`.
    Ping(Ping),
}

impl ServerMessage<'_> {
    /// Returns the object as compact JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("serializing our own types cannot fail")
    }
}

/// The parameters a client needs for keeping and resuming its session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello<'a> {
    /// Version of the dialect, [`super::VERSION`].
    pub version: u32,
    /// Public id of the session.
    #[serde(borrow)]
    pub session: Cow<'a, str>,
    /// The resume token: the id and a secret. It gives full control of the session.
    #[serde(borrow)]
    pub resume: Cow<'a, str>,
    /// Whether this is the session that the client asked to resume.
    pub recovered: bool,
    /// `seq` after which the stream continues: the last one that the client reported, or is known to have
    /// received.
    pub seq: u64,
    /// Maximum time without data from the server in milliseconds, not counting network delay and
    /// `ping_slack`.
    pub ping_interval_ms: u64,
    /// How long the server waits for the answer to a ping, in milliseconds.
    pub pong_timeout_ms: u64,
    /// How long a session can be resumed after a disconnect, in milliseconds.
    pub reconnect_window_ms: u64,
    /// Whether the client should report its positions when it resumes the session, because its server may fail.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub positions: bool,
}

/// The reply to the command with the same `id`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply<'a> {
    /// The command's `id`, if it had a valid one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// `"ok":{..}` or `"error":{..}`.
    #[serde(flatten, borrow)]
    pub outcome: ReplyOutcome<'a>,
}

/// Outcome of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyOutcome<'a> {
    /// The command succeeded.
    #[serde(borrow)]
    Ok(Cow<'a, Success<'a>>),
    /// The command was refused. The connection stays open.
    Error(Cow<'a, CommandError>),
}

/// Announces that the server is about to close the connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goaway<'a> {
    /// Reason text of the Close frame that follows.
    #[serde(borrow)]
    pub reason: Cow<'a, str>,
    /// Time to wait before reconnecting, in milliseconds. Randomized per client.
    pub retry_ms: u64,
}

/// A message of a channel as one session receives it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChannelMessage<'a> {
    /// Seq of the message.
    pub seq: u64,
    /// Position in the log of the pattern through which the message was received, if there is one.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<PatternPosition<'a>>,
    /// Epoch of the channel's log, for messages received through a pattern, and if the log continues one of an
    /// earlier epoch. Otherwise, the reply to `subscribe` has named it.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Cow<'a, str>>,
    /// Name of the channel.
    #[serde(borrow)]
    pub channel: Cow<'a, str>,
    /// Offset of the message in the channel.
    pub offset: u64,
    /// User whose client published the message; absent for anonymous clients and the API.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub user: Option<Cow<'a, str>>,
    /// Time of publication in milliseconds since the Unix epoch, if the channel's namespace includes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
    /// The published data; absent in a join or leave message.
    #[serde(default, borrow, deserialize_with = "null_as_data", skip_serializing_if = "Option::is_none")]
    pub data: Option<&'a RawValue>,
    /// A session that has subscribed to the channel, if the channel's namespace announces joins.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub joined: Option<SubscriberInfo<'a>>,
    /// A session that has unsubscribed from the channel, if the channel's namespace announces leaves.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub left: Option<SubscriberInfo<'a>>,
}

/// Position of a message in the log of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatternPosition<'a> {
    /// Name of the pattern.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// Epoch of the pattern's log.
    #[serde(borrow)]
    pub epoch: Cow<'a, str>,
    /// Offset of the message in that log.
    pub offset: u64,
}

/// Messages that the client should have received but no longer can. The range may be too wide, but never too
/// narrow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap<'a> {
    /// Seq of the gap.
    pub seq: u64,
    /// Name of the channel.
    #[serde(borrow)]
    pub channel: Cow<'a, str>,
    /// Epoch of the channel's log.
    #[serde(borrow)]
    pub epoch: Cow<'a, str>,
    /// First missing offset; absent, like `to`, if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Last missing offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
}

/// Announces a subscription that the client did not request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribed<'a> {
    /// Name of the channel.
    #[serde(borrow)]
    pub channel: Cow<'a, str>,
    /// Epoch of the channel's log.
    #[serde(borrow)]
    pub epoch: Cow<'a, str>,
    /// Offset of the message before the first one to be sent.
    pub offset: u64,
}

/// Announces that a subscription has ended without the client's request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsubscribed<'a> {
    /// Name of the channel.
    #[serde(borrow)]
    pub channel: Cow<'a, str>,
    /// Why the subscription ended.
    #[serde(borrow)]
    pub reason: Cow<'a, str>,
}

/// A heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ping {
    /// `seq` of the last message sent before the ping.
    pub seq: u64,
}
