use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::{EnumIter, EnumMessage};

use super::PublishKey;

/// One command of a client, or what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a, I> {
    /// What the response echoes, if the client gave it.
    pub id: Option<I>,
    /// What to do.
    pub command: Result<Command<'a>, CommandError>,
}

/// What a client can ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Subscribe to a channel.
    Subscribe {
        /// The channel.
        channel: Cow<'a, str>,
        /// What comes first.
        begin: Beginning<'a>,
    },
    /// End a subscription.
    Unsubscribe {
        /// The channel.
        channel: Cow<'a, str>,
    },
    /// Subscribe to all of these channels, to what is published from now on, or to none.
    SubscribeAll {
        /// The channels.
        channels: Vec<Cow<'a, str>>,
    },
    /// End several subscriptions.
    UnsubscribeAll {
        /// The channels.
        channels: Vec<Cow<'a, str>>,
    },
    /// Publish to everyone who subscribes.
    Publish {
        /// The channel.
        channel: Cow<'a, str>,
        /// Any JSON, as the client wrote it.
        data: Cow<'a, str>,
        /// If it was published before, by the same client on the same channel with the same key, it is not published again.
        key: Option<PublishKey<'a>>,
    },
    /// Say something to the server's own code.
    Service {
        /// The channel.
        channel: Cow<'a, str>,
        /// Any JSON, as the client wrote it.
        data: Cow<'a, str>,
    },
    /// Call a method of the backend's.
    Call {
        /// Its name.
        method: Cow<'a, str>,
        /// Any JSON, as the client wrote it.
        data: Cow<'a, str>,
    },
    /// List who subscribes.
    Presence {
        /// The channel.
        channel: Cow<'a, str>,
    },
    /// Everything up to `seq` has arrived.
    Ack {
        /// The last message that arrived.
        seq: u64,
    },
    /// The answer to [`super::Event::Ping`].
    Pong {
        /// The ping's.
        seq: u64,
    },
    /// Answer when there is something new, or when this has been held long enough.
    Hold {
        /// How long it is held at most, if the client says so.
        hold: Option<Duration>,
        /// The last message that the client has, if it acknowledges.
        seq: Option<u64>,
        /// A JWT that takes the place of the client's, if there is one.
        token: Option<Cow<'a, str>>,
    },
    /// Nothing: whether the server answers is all that the client wants to know.
    Nothing,
    /// Nothing that the dialect allows: the conversation cannot go on.
    Violation,
    /// Replace the client's token, before the old one expires.
    Refresh {
        /// A JWT.
        token: Cow<'a, str>,
    },
    /// End the session at once, without a reconnect window.
    Close,
}

impl Command<'_> {
    /// The same, for longer than the text that it was read from.
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
            Self::Ack { seq } => Command::Ack { seq },
            Self::Pong { seq } => Command::Pong { seq },
            Self::Hold { hold, seq, token } => Command::Hold { hold, seq, token: token.map(owned) },
            Self::Nothing => Command::Nothing,
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

/// Where in a channel a subscription begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Beginning<'a> {
    /// With what is published from now on.
    #[default]
    Now,
    /// After the last message that the client has.
    After(Since<'a>),
    /// With so many of the newest messages, as far as the log has them.
    Newest(u64),
}

impl Beginning<'_> {
    /// The same, for longer than the command.
    #[must_use]
    pub fn into_owned(self) -> Beginning<'static> {
        match self {
            Self::Now => Beginning::Now,
            Self::After(since) => Beginning::After(since.into_owned()),
            Self::Newest(count) => Beginning::Newest(count),
        }
    }
}

/// A message in one epoch of a channel's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Since<'a> {
    /// The epoch.
    pub epoch: Cow<'a, str>,
    /// The message.
    pub offset: u64,
}

impl Since<'_> {
    /// The same, for longer than the command.
    #[must_use]
    pub fn into_owned(self) -> Since<'static> {
        Since { epoch: self.epoch.into_owned().into(), offset: self.offset }
    }
}

/// Why a command was refused. The connection stays open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError {
    /// For programs.
    pub code: ErrorCode,
    /// For people: names what was wrong.
    pub message: String,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CommandError {}

/// The codes of refused commands.
#[derive(Clone, Debug, PartialEq, Eq, EnumIter, EnumMessage, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The text is not what the dialect expects: bad syntax, not exactly one command, or fields that do not fit it.
    Malformed,
    /// No such command.
    UnknownCommand,
    /// Not a channel's name.
    BadChannel,
    /// The client's token does not allow it.
    Forbidden,
    /// The token is not valid.
    Unauthorized,
    /// It would exceed a limit, which the message names.
    Limit,
    /// Too many commands a second.
    RateLimited,
    /// Channels or the backend cannot be reached now: nothing was done.
    Unavailable,
    /// No answer came: it may have been done, or not.
    OutcomeUnknown,
    /// Too much is being done already.
    Overloaded,
    /// The server is going away, and does no more of this.
    Draining,
    /// It is longer than may be.
    TooLarge,
    /// The backend has not answered in time: nothing was done that would have needed its answer.
    Timeout,
    /// A code of the backend's own.
    #[serde(untagged)]
    Backend(Box<str>),
}
