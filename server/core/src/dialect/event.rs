use std::borrow::Cow;
use std::time::Duration;

use super::CommandError;
use crate::close::CloseCode;

/// What the server says to a client unasked, besides the messages of channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// First on every connection: what a client needs to keep the session and to resume it.
    Hello {
        /// The session's public id.
        session: Cow<'a, str>,
        /// The resume token: the id and a secret. It gives full control of the session.
        resume: Cow<'a, str>,
        /// True if this is the session that the client asked to resume.
        recovered: bool,
        /// The stream continues after this seq: the last that the client said it has, or is known to have.
        seq: u64,
        /// The longest that the server stays silent, except for the network and for `ping_slack`.
        ping_interval: Duration,
        /// How long the server waits for an answer to a ping.
        pong_timeout: Duration,
        /// How long a lost connection can be resumed.
        reconnect_window: Duration,
    },
    /// The server is about to close the connection.
    Goaway {
        /// The code of the Close frame that follows.
        code: CloseCode,
        /// How long the client is to wait before it comes back.
        retry: Duration,
    },
    /// Messages that the client should have had and no longer can. The range may be too wide, never too narrow.
    Gap {
        /// Its number in the session.
        seq: u64,
        /// The channel.
        channel: &'a str,
        /// The epoch of the channel's log.
        epoch: &'a str,
        /// The first and the last missing message, if known.
        range: Option<(u64, u64)>,
    },
    /// A subscription has begun, and the client did not ask for it.
    Subscribed {
        /// The channel.
        channel: &'a str,
        /// The epoch of the channel's log.
        epoch: &'a str,
        /// What comes next follows this message.
        offset: u64,
    },
    /// A subscription has ended, and the client did not ask for it.
    Unsubscribed {
        /// The channel.
        channel: &'a str,
        /// Why.
        reason: &'a str,
    },
    /// A heartbeat, answered by [`super::Command::Pong`].
    Ping {
        /// The seq of the last message sent before it.
        seq: u64,
    },
}

/// The response to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response<'a, I> {
    /// The request's id.
    pub id: Option<I>,
    /// What came of it.
    pub result: Result<Success<'a>, CommandError>,
}

/// What a successful command returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Success<'a> {
    /// Nothing.
    Done,
    /// To [`super::Command::Subscribe`].
    Subscribed {
        /// The channel.
        channel: Cow<'a, str>,
        /// The epoch of the channel's log.
        epoch: Cow<'a, str>,
        /// The last message in it.
        offset: u64,
        /// If a `since` was given: whether everything after it follows, without a gap.
        recovered: Option<bool>,
    },
    /// To [`super::Command::SubscribeAll`].
    SubscribedAll,
    /// To [`super::Command::Publish`].
    Published {
        /// The message's number in the channel.
        offset: u64,
        /// The epoch of the channel's log.
        epoch: Cow<'a, str>,
    },
    /// To [`super::Command::Call`], and to [`super::Command::Service`] where the backend has answered it.
    Called {
        /// Any JSON, as the backend wrote it.
        data: Cow<'a, str>,
    },
    /// To [`super::Command::Presence`].
    Presence {
        /// The channel.
        channel: Cow<'a, str>,
        /// How many sessions subscribe.
        total: usize,
        /// Some of them, if there are many.
        members: Vec<Member<'a>>,
        /// The users of those.
        users: Vec<UserPresence<'a>>,
        /// Servers that share the channel and have not said who there is.
        incomplete: Vec<Cow<'a, str>>,
    },
}

/// A session that subscribes to a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its public id, if others are told when it comes and goes.
    pub session: Option<Cow<'a, str>>,
    /// The `sub` of its client's token, if it has one.
    pub user: Option<Cow<'a, str>>,
    /// The phase of the session.
    pub phase: &'a str,
}

/// A user whose sessions subscribe to a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserPresence<'a> {
    /// The `sub` of their token.
    pub user: Cow<'a, str>,
    /// How many.
    pub sessions: usize,
    /// How many of these have a connection, or are between two polls.
    pub connections: usize,
}
