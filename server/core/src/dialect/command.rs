use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::{EnumIter, EnumMessage};

use super::PublishKey;

/// A client's command, or the error that prevented it from being read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRequest<'a, I> {
    /// Request id to repeat in the response, if the client sent one.
    pub id: Option<I>,
    /// The command, or why it was rejected.
    pub command: Result<Command<'a>, CommandError>,
}

/// A command from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Subscribe to a channel.
    Subscribe {
        /// Name of the channel.
        channel: Cow<'a, str>,
        /// Where to start reading the channel.
        begin: StartPosition<'a>,
    },
    /// Unsubscribe from a channel.
    Unsubscribe {
        /// Name of the channel.
        channel: Cow<'a, str>,
    },
    /// Subscribe to new messages on all of these channels, or on none of them if one is refused.
    SubscribeAll {
        /// Names of the channels.
        channels: Vec<Cow<'a, str>>,
    },
    /// Unsubscribe from several channels.
    UnsubscribeAll {
        /// Names of the channels.
        channels: Vec<Cow<'a, str>>,
    },
    /// Publish a message to all subscribers.
    Publish {
        /// Name of the channel.
        channel: Cow<'a, str>,
        /// Any JSON, unmodified.
        data: Cow<'a, str>,
        /// Deduplication key: a second publish by the same client on the same channel with the same key is
        /// ignored.
        key: Option<PublishKey<'a>>,
    },
    /// Send data to the application's backend over a service channel.
    Service {
        /// Name of the channel.
        channel: Cow<'a, str>,
        /// Any JSON, unmodified.
        data: Cow<'a, str>,
    },
    /// Call a method of the backend.
    Call {
        /// Name of the method.
        method: Cow<'a, str>,
        /// Any JSON, unmodified.
        data: Cow<'a, str>,
    },
    /// List the subscribers of a channel.
    Presence {
        /// Name of the channel.
        channel: Cow<'a, str>,
    },
    /// Read a page of a channel's history.
    History {
        /// Name of the channel.
        channel: Cow<'a, str>,
        /// The page.
        page: HistoryPage<'a>,
    },
    /// Acknowledge all messages up to `seq`.
    Ack {
        /// Seq of the last message received.
        seq: u64,
    },
    /// Answer a [`super::ServerEvent::Ping`].
    Pong {
        /// Seq of the ping.
        seq: u64,
    },
    /// Request an answer as soon as there are messages, or after the hold time at the latest.
    Hold {
        /// Maximum hold time, if the client specifies one.
        hold: Option<Duration>,
        /// Seq of the last message received, if the client acknowledges messages.
        seq: Option<u64>,
        /// A JWT that replaces the client's current one.
        token: Option<Cow<'a, str>>,
    },
    /// Do nothing: the client only checks that the server responds.
    Noop,
    /// A protocol violation, after which the connection must be closed.
    Violation,
    /// Replace the client's token before it expires.
    Refresh {
        /// The new JWT.
        token: Cow<'a, str>,
    },
    /// End the session immediately, without a reconnect window.
    Close,
}

impl Command<'_> {
    /// Detaches the command from the text it was read from.
    #[must_use]
    pub fn into_owned(self) -> Command<'static> {
        match self {
            Self::Subscribe { channel, begin } => {
                Command::Subscribe { channel: owned(channel), begin: begin.into_owned() }
            }
            Self::Unsubscribe { channel } => Command::Unsubscribe { channel: owned(channel) },
            Self::SubscribeAll { channels } => Command::SubscribeAll { channels: all_owned(channels) },
            Self::UnsubscribeAll { channels } => Command::UnsubscribeAll { channels: all_owned(channels) },
            Self::Publish { channel, data, key } => Command::Publish {
                channel: owned(channel),
                data: owned(data),
                key: key.map(PublishKey::into_owned),
            },
            Self::Service { channel, data } => {
                Command::Service { channel: owned(channel), data: owned(data) }
            }
            Self::Call { method, data } => Command::Call { method: owned(method), data: owned(data) },
            Self::Presence { channel } => Command::Presence { channel: owned(channel) },
            Self::History { channel, page } => {
                Command::History { channel: owned(channel), page: page.into_owned() }
            }
            Self::Ack { seq } => Command::Ack { seq },
            Self::Pong { seq } => Command::Pong { seq },
            Self::Hold { hold, seq, token } => Command::Hold { hold, seq, token: token.map(owned) },
            Self::Noop => Command::Noop,
            Self::Violation => Command::Violation,
            Self::Refresh { token } => Command::Refresh { token: owned(token) },
            Self::Close => Command::Close,
        }
    }
}

fn owned(text: Cow<'_, str>) -> Cow<'static, str> {
    text.into_owned().into()
}

fn all_owned(texts: Vec<Cow<'_, str>>) -> Vec<Cow<'static, str>> {
    texts.into_iter().map(owned).collect()
}

/// Where a subscription starts reading its channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StartPosition<'a> {
    /// With the next message to be published.
    #[default]
    Now,
    /// After the last message that the client has received.
    After(Since<'a>),
    /// With this many of the newest messages, or as many as the log still has.
    Newest(u64),
    /// Like `Newest`, after a gap: the client may have missed messages, and does not know which.
    Unknown(u64),
}

impl StartPosition<'_> {
    /// Detaches the position from the text of the command.
    #[must_use]
    pub fn into_owned(self) -> StartPosition<'static> {
        match self {
            Self::Now => StartPosition::Now,
            Self::After(since) => StartPosition::After(since.into_owned()),
            Self::Newest(count) => StartPosition::Newest(count),
            Self::Unknown(count) => StartPosition::Unknown(count),
        }
    }
}

/// Page of a channel's history that a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryPage<'a> {
    /// Messages to choose from.
    pub range: HistoryRange,
    /// Epoch of the log to which the offset of the range belongs, if the client states it. The page is empty if
    /// the log has another epoch.
    pub epoch: Option<Cow<'a, str>>,
    /// Maximum number of messages, from 1 to [`Self::MAX_MESSAGES`].
    pub limit: usize,
}

/// Range of offsets of a [`HistoryPage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryRange {
    /// The newest messages.
    Newest,
    /// The newest messages before this offset.
    Before(u64),
    /// The oldest messages after this offset.
    After(u64),
}

impl HistoryPage<'_> {
    /// Greatest `limit`.
    pub const MAX_MESSAGES: usize = 256;
    /// `limit` of a command that states none.
    pub const DEFAULT_MESSAGES: usize = 50;

    /// Detaches the page from the text of the command.
    #[must_use]
    pub fn into_owned(self) -> HistoryPage<'static> {
        HistoryPage { range: self.range, epoch: self.epoch.map(owned), limit: self.limit }
    }
}

/// Position of a message in one epoch of a channel's log.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `epoch` and `offset`")]
pub struct Since<'a> {
    /// Epoch of the log.
    #[serde(borrow)]
    pub epoch: Cow<'a, str>,
    /// Offset of the message.
    pub offset: u64,
}

impl Since<'_> {
    /// Detaches the position from the text of the command.
    #[must_use]
    pub fn into_owned(self) -> Since<'static> {
        Since { epoch: self.epoch.into_owned().into(), offset: self.offset }
    }
}

/// Why a command was refused. The connection stays open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct CommandError {
    /// Machine-readable code.
    pub code: ErrorCode,
    /// Human-readable description of the problem.
    pub message: String,
}

/// Error codes of refused commands.
#[derive(Clone, Debug, PartialEq, Eq, EnumIter, EnumMessage, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The text is not a valid command: its syntax or one of its fields is wrong, or the text contains no
    /// command or several commands.
    Malformed,
    /// The command is unknown.
    UnknownCommand,
    /// The channel name is invalid.
    BadChannel,
    /// The client does not have permission for this command.
    Forbidden,
    /// The token is invalid.
    Unauthorized,
    /// The command would exceed the limit that the message names.
    Limit,
    /// The client sends more commands per second than allowed.
    RateLimited,
    /// The engine that stores the channels, or the backend, cannot be reached. Nothing was done.
    Unavailable,
    /// The engine did not answer. The command may or may not have been carried out.
    OutcomeUnknown,
    /// Too many operations are already in progress.
    Overloaded,
    /// The server is shutting down and no longer accepts this command.
    Draining,
    /// The data is too large.
    TooLarge,
    /// The backend did not answer in time. The server did nothing that depends on the answer.
    Timeout,
    /// The backend's answer is not valid. Nothing was done.
    BackendError,
    /// An error code defined by the backend.
    #[serde(untagged)]
    Backend(Box<str>),
}
