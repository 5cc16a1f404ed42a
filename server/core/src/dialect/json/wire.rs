//! The objects of the wire, server to client, as they are written and read.

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
    /// The answer to a command.
    #[serde(borrow)]
    Reply(Reply<'a>),
    /// The server is about to close the connection; come back after `retry_ms`.
    #[serde(borrow)]
    Goaway(Goaway<'a>),
    /// A message of a channel. The server writes these by [`super::Json`]'s encoding.
    #[serde(borrow)]
    Message(Delivery<'a>),
    /// Messages that the client should have had and no longer can.
    #[serde(borrow)]
    Gap(Gap<'a>),
    /// A subscription has begun, and the client did not ask for it.
    #[serde(borrow)]
    Subscribed(Subscribed<'a>),
    /// A subscription has ended, and the client did not ask for it.
    #[serde(borrow)]
    Unsubscribed(Unsubscribed<'a>),
    /// A heartbeat (`heartbeat=message`), to be answered by a `pong` with the same `seq`.
    Ping(Ping),
}

impl ServerMessage<'_> {
    /// The object as compact JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("these types have string keys only and cannot fail to serialize")
    }
}

/// What a client needs to keep the session and to come back to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello<'a> {
    /// The dialect's version, [`super::VERSION`].
    pub version: u32,
    /// The session's public id.
    #[serde(borrow)]
    pub session: Cow<'a, str>,
    /// The resume token: the id and a secret. It gives full control of the session.
    #[serde(borrow)]
    pub resume: Cow<'a, str>,
    /// True if this is the session that the client asked to resume.
    pub recovered: bool,
    /// The stream continues after this `seq`: the last that the client said it has, or is known to have.
    pub seq: u64,
    /// The longest that the server stays silent, in milliseconds, except for the network and for `ping_slack`.
    pub ping_interval_ms: u64,
    /// How long the server waits for an answer to a ping, in milliseconds.
    pub pong_timeout_ms: u64,
    /// How long a lost connection can be resumed, in milliseconds.
    pub reconnect_window_ms: u64,
}

/// The answer to the command with the same `id`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply<'a> {
    /// The command's `id`, if it had one that could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// `"ok":{..}` or `"error":{..}`.
    #[serde(flatten, borrow)]
    pub outcome: Outcome<'a>,
}

/// What came of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome<'a> {
    /// It was done.
    #[serde(borrow)]
    Ok(Done<'a>),
    /// It was refused; the connection stays.
    #[serde(borrow)]
    Error(ReplyError<'a>),
}

/// What a successful command returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Done<'a> {
    /// Of `subscribe`.
    Subscribed {
        /// The channel.
        #[serde(borrow)]
        channel: Cow<'a, str>,
        /// The epoch of the channel's log.
        #[serde(borrow)]
        epoch: Cow<'a, str>,
        /// The last message in it.
        offset: u64,
        /// If a `since` was given: whether everything after it follows, without a gap.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recovered: Option<bool>,
    },
    /// Of `presence`.
    Present {
        /// The channel.
        #[serde(borrow)]
        channel: Cow<'a, str>,
        /// How many sessions subscribe.
        total: usize,
        /// Some of them, if there are many.
        #[serde(borrow)]
        present: Vec<Present<'a>>,
        /// The users of those who are in `present` and have a name.
        #[serde(borrow, default)]
        users: Vec<PresentUser<'a>>,
        /// Servers that share the channel and have not said who there is.
        #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
        incomplete: Vec<Cow<'a, str>>,
    },
    /// Of `publish`.
    Published {
        /// The message's number.
        offset: u64,
        /// The epoch of the channel's log.
        #[serde(borrow)]
        epoch: Cow<'a, str>,
    },
    /// Of `call`. Nobody reads it here: what a method returns, only its caller knows.
    #[serde(skip_deserializing)]
    Called {
        /// JSON.
        #[serde(serialize_with = "as_it_is")]
        data: Cow<'a, str>,
    },
    /// Of all others.
    Nothing {},
}

/// JSON, written as it is.
fn as_it_is<S: Serializer>(json: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serde_json::from_str::<&RawValue>(json).map_err(S::Error::custom)?.serialize(serializer)
}

/// A session that subscribes to a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Present<'a> {
    /// Its public id, if the channel's namespace tells joins and leaves.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub session: Option<Cow<'a, str>>,
    /// The `sub` of its client's token, if it has one.
    #[serde(borrow)]
    pub user: Option<Cow<'a, str>>,
    /// `attached`, or `suspended` while it may come back.
    #[serde(borrow)]
    pub phase: Cow<'a, str>,
}

/// A user whose sessions subscribe to a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresentUser<'a> {
    /// The `sub` of their token.
    #[serde(borrow)]
    pub user: Cow<'a, str>,
    /// How many.
    pub sessions: usize,
    /// How many of these have a connection, or are between two polls.
    pub connections: usize,
}

/// Why a command was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyError<'a> {
    /// For programs.
    pub code: ErrorCode,
    /// For people: names what was wrong.
    #[serde(borrow)]
    pub message: Cow<'a, str>,
}

/// The announcement of a close.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goaway<'a> {
    /// Why: the reason of the Close frame that follows.
    #[serde(borrow)]
    pub reason: Cow<'a, str>,
    /// How long to wait before coming back, in milliseconds; spread at random over the clients.
    pub retry_ms: u64,
}

/// A message of a channel, as one session gets it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Delivery<'a> {
    /// Its number in the session.
    pub seq: u64,
    /// The pattern by which it came, if it came by one.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<PatternPlace<'a>>,
    /// The epoch of the channel's log, if it came by a pattern: else the reply to `subscribe` has told it.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Cow<'a, str>>,
    /// The channel.
    #[serde(borrow)]
    pub channel: Cow<'a, str>,
    /// Its number in the channel.
    pub offset: u64,
    /// The user whose client has published it, if it has a name.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub user: Option<Cow<'a, str>>,
    /// When it was published, in milliseconds since 1970, if the channel's namespace says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
    /// What was published. Nothing, if the server tells a join or a leave.
    #[serde(default, borrow, deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub data: Option<&'a RawValue>,
    /// A session that follows the channel from now on, if the channel's namespace says so.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub joined: Option<Follower<'a>>,
    /// A session that no longer does.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub left: Option<Follower<'a>>,
}

/// `null` is data like any other.
fn even_null<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// What others are told of a session that comes or goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follower<'a> {
    /// Its public id.
    #[serde(borrow)]
    pub session: Cow<'a, str>,
    /// The `sub` of its client's token, if it has one.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub user: Option<Cow<'a, str>>,
}

/// Where a message is in the log of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatternPlace<'a> {
    /// The pattern.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// The epoch of the pattern's log.
    #[serde(borrow)]
    pub epoch: Cow<'a, str>,
    /// The message's number in it.
    pub offset: u64,
}

/// Messages that the client should have had and no longer can. The range may be too wide, never too narrow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap<'a> {
    /// Its number in the session.
    pub seq: u64,
    /// The channel.
    #[serde(borrow)]
    pub channel: Cow<'a, str>,
    /// The epoch of the channel's log.
    #[serde(borrow)]
    pub epoch: Cow<'a, str>,
    /// The first that is missing; left out, like `to`, if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The last that is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
}

/// The session follows a channel from after `offset` on, by the server's will.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribed<'a> {
    /// The channel.
    #[serde(borrow)]
    pub channel: Cow<'a, str>,
    /// The epoch of the channel's log.
    #[serde(borrow)]
    pub epoch: Cow<'a, str>,
    /// What comes next follows this message.
    pub offset: u64,
}

/// A subscription that has ended, and the client did not ask for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsubscribed<'a> {
    /// The channel.
    #[serde(borrow)]
    pub channel: Cow<'a, str>,
    /// Why.
    #[serde(borrow)]
    pub reason: Cow<'a, str>,
}

/// A heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ping {
    /// The `seq` of the last message sent before it.
    pub seq: u64,
}
