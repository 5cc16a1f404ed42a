use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::de::IgnoredAny;
use serde::ser::{Error, SerializeMap};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::CommandError;
use crate::close::CloseCode;

/// An unsolicited notification to a client, other than a channel message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent<'a> {
    /// First event on every connection: the parameters for keeping and resuming the session.
    Hello {
        /// Public id of the session.
        session: Cow<'a, str>,
        /// The resume token: the id and a secret. It gives full control of the session.
        resume: Cow<'a, str>,
        /// Whether this is the session that the client asked to resume.
        recovered: bool,
        /// Seq after which the stream continues: the last one that the client reported, or is known to have
        /// received.
        seq: u64,
        /// Maximum time without data from the server, not counting network delay and `ping_slack`.
        ping_interval: Duration,
        /// How long the server waits for the answer to a ping.
        pong_timeout: Duration,
        /// How long a session can be resumed after a disconnect.
        reconnect_window: Duration,
        /// Whether the client should report its positions when it resumes the session.
        positions: bool,
    },
    /// The server is about to close the connection.
    Goaway {
        /// Code of the Close frame that follows.
        code: CloseCode,
        /// Time to wait before reconnecting.
        retry: Duration,
    },
    /// Messages that the client should have received but no longer can. The range may be too wide, but never
    /// too narrow.
    Gap {
        /// Seq of the gap.
        seq: u64,
        /// Name of the channel.
        channel: &'a str,
        /// Epoch of the channel's log.
        epoch: &'a str,
        /// First and last missing offset, if known.
        range: Option<(u64, u64)>,
    },
    /// A subscription that the client did not request has begun.
    Subscribed {
        /// Name of the channel.
        channel: &'a str,
        /// Epoch of the channel's log.
        epoch: &'a str,
        /// Offset of the message before the first one to be sent.
        offset: u64,
    },
    /// A subscription has ended without the client's request.
    Unsubscribed {
        /// Name of the channel.
        channel: &'a str,
        /// Why the subscription ended.
        reason: &'a str,
    },
    /// A heartbeat, answered with [`super::Command::Pong`].
    Ping {
        /// Seq of the last message sent before the ping.
        seq: u64,
    },
}

/// Response to a client's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response<'a, I> {
    /// Id of the request.
    pub id: Option<I>,
    /// Result of the command.
    pub result: Result<Success<'a>, CommandError>,
}

/// Result of a successful command. `Serialize` and `Deserialize` are those of the `json` dialect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Success<'a> {
    /// Result of [`super::Command::Subscribe`].
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
    /// Result of [`super::Command::Presence`].
    Presence {
        /// Name of the channel.
        #[serde(borrow)]
        channel: Cow<'a, str>,
        /// Number of subscribed sessions.
        total: usize,
        /// The subscribed sessions, or some of them if there are many.
        #[serde(borrow, rename = "present")]
        members: Vec<Member<'a>>,
        /// Users of the sessions in `members`, except anonymous sessions.
        #[serde(borrow, default)]
        users: Vec<UserPresence<'a>>,
        /// Whether there are more sessions than in `members`, because the reply would be too large.
        #[serde(default, skip_serializing_if = "is_false")]
        truncated: bool,
        /// Nodes that share the channel but did not report their subscribers.
        #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
        incomplete: Vec<Cow<'a, str>>,
    },
    /// A result that several clients receive, or whose fields only the server knows.
    #[serde(skip_deserializing)]
    Shared(SharedJson),
    /// Result of [`super::Command::Publish`].
    Published {
        /// Offset of the message in the channel.
        offset: u64,
        /// Epoch of the channel's log.
        #[serde(borrow)]
        epoch: Cow<'a, str>,
    },
    /// Result of [`super::Command::Call`], and of [`super::Command::Service`] if the backend returned data.
    /// Not deserialized, because only the caller knows the method's result type.
    #[serde(skip_deserializing)]
    Called {
        /// Any JSON, unmodified.
        #[serde(serialize_with = "unmodified")]
        data: Cow<'a, str>,
    },
    /// Result of [`super::Command::SubscribeAll`].
    #[serde(skip_deserializing, serialize_with = "no_data")]
    SubscribedAll,
    /// No data.
    #[serde(serialize_with = "no_data", deserialize_with = "any_data")]
    Done,
}

/// JSON that was written before, possibly once for several clients.
#[derive(Clone, Debug)]
pub struct SharedJson(Arc<RawValue>);

impl SharedJson {
    /// Writes a value of one of our own types, whose serialization cannot fail.
    ///
    /// # Panics
    /// Panics if serialization fails.
    #[must_use]
    pub fn new(value: &impl Serialize) -> Self {
        let json = to_raw_value(value).expect("serializing our own types cannot fail");
        Self(json.into())
    }
}

impl Serialize for SharedJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl PartialEq for SharedJson {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Eq for SharedJson {}

fn is_false(value: &bool) -> bool {
    !value
}

/// Writes JSON unmodified.
fn unmodified<S: Serializer>(json: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serde_json::from_str::<&RawValue>(json).map_err(S::Error::custom)?.serialize(serializer)
}

fn no_data<S: Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_map(Some(0))?.end()
}

fn any_data<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    IgnoredAny::deserialize(deserializer).map(drop)
}

/// A session that is subscribed to a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member<'a> {
    /// Public id of the session, if joins and leaves are announced on the channel.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub session: Option<Cow<'a, str>>,
    /// The `sub` claim of the client's token, if it has one.
    #[serde(borrow)]
    pub user: Option<Cow<'a, str>>,
    /// `attached`, or `suspended` while the session can be resumed.
    #[serde(borrow)]
    pub phase: &'a str,
}

/// A user whose sessions are subscribed to a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserPresence<'a> {
    /// The `sub` claim of the user's token.
    #[serde(borrow)]
    pub user: Cow<'a, str>,
    /// Number of sessions.
    pub sessions: usize,
    /// Number of these sessions that have a connection or are between polls.
    pub connections: usize,
}
