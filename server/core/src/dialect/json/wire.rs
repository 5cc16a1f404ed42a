//! The objects sent from the server to clients.

use std::borrow::Cow;

use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::dialect::ErrorCode;

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
    Ok(ReplyData<'a>),
    /// The command was refused. The connection stays open.
    #[serde(borrow)]
    Error(ReplyError<'a>),
}

/// Result of a successful command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ReplyData<'a> {
    /// Result of `subscribe`.
    Subscribed {
        /// Name of the channel.
        #[serde(borrow)]
        channel: Cow<'a, str>,
        /// Epoch of the channel's log.
        #[serde(borrow)]
        epoch: Cow<'a, str>,
        /// Offset of the last message in the log.
        offset: u64,
        /// Whether all messages after the request's `since` follow without a gap. `None` if it had no
        /// `since`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recovered: Option<bool>,
    },
    /// Result of `presence`.
    Present {
        /// Name of the channel.
        #[serde(borrow)]
        channel: Cow<'a, str>,
        /// Number of subscribed sessions.
        total: usize,
        /// The subscribed sessions, or some of them if there are many.
        #[serde(borrow)]
        present: Vec<PresentSession<'a>>,
        /// Users of the sessions in `present`, except anonymous sessions.
        #[serde(borrow, default)]
        users: Vec<PresentUser<'a>>,
        /// Nodes that share the channel but did not report their subscribers.
        #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
        incomplete: Vec<Cow<'a, str>>,
    },
    /// Result of `publish`.
    Published {
        /// Offset of the message.
        offset: u64,
        /// Epoch of the channel's log.
        #[serde(borrow)]
        epoch: Cow<'a, str>,
    },
    /// Result of `call`. Not deserialized, because only the caller knows the method's result type.
    #[serde(skip_deserializing)]
    Called {
        /// The result as JSON.
        #[serde(serialize_with = "unmodified")]
        data: Cow<'a, str>,
    },
    /// Result of all other commands.
    Nothing {},
}

/// Writes JSON unmodified.
fn unmodified<S: Serializer>(json: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serde_json::from_str::<&RawValue>(json).map_err(S::Error::custom)?.serialize(serializer)
}

/// A session that is subscribed to a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresentSession<'a> {
    /// Public id of the session, if the channel's namespace announces joins and leaves.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub session: Option<Cow<'a, str>>,
    /// The `sub` claim of the client's token, if it has one.
    #[serde(borrow)]
    pub user: Option<Cow<'a, str>>,
    /// `attached`, or `suspended` while the session can be resumed.
    #[serde(borrow)]
    pub phase: Cow<'a, str>,
}

/// A user whose sessions are subscribed to a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresentUser<'a> {
    /// The `sub` claim of the user's token.
    #[serde(borrow)]
    pub user: Cow<'a, str>,
    /// Number of sessions.
    pub sessions: usize,
    /// Number of these sessions that have a connection or are between polls.
    pub connections: usize,
}

/// Why a command was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyError<'a> {
    /// Machine-readable code.
    pub code: ErrorCode,
    /// Human-readable description of the problem.
    #[serde(borrow)]
    pub message: Cow<'a, str>,
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
    /// Epoch of the channel's log, for messages received through a pattern. Other subscribers learn it from
    /// the reply to `subscribe`.
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

/// Deserializes `null` as data rather than as absent.
fn null_as_data<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// A session in a join or leave message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriberInfo<'a> {
    /// Public id of the session.
    #[serde(borrow)]
    pub session: Cow<'a, str>,
    /// The `sub` claim of the client's token, if it has one.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub user: Option<Cow<'a, str>>,
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
