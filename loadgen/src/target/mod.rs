//! What kinds of servers there are, and what each can be asked for.
//!
//! A new one, Bayeux say, is a variant of [`Target`] with its row of the table, one of `Wire` in [`crate::client`], and a module
//! beside that of Socket.IO which knows its greeting, its heartbeats and its messages. No scenario has to know of it.

mod admin_url;
mod host_port;
mod url;

use std::fmt;

use clap::ValueEnum;

pub use self::admin_url::AdminUrl;
pub(crate) use self::url::Scheme;
pub use self::url::ServerUrl;

/// What a server speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// Encke's json dialect over WebSocket
    #[default]
    Encke,
    /// Any RFC 6455 server
    Plain,
    /// Any stream of server-sent events over HTTP/1.1
    Sse,
    /// Socket.IO 5 over Engine.IO 4 over WebSocket
    Socketio,
}

/// What a scenario may need of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ability {
    /// It pings, and wants an answer.
    Heartbeat,
    /// It says how long it waits for that answer.
    TellsPongTimeout,
    /// It answers pings.
    AnswersPings,
    /// A connection can go on where another one ended.
    Resume,
    /// It says whether one did.
    TellsRecovered,
    /// So also while the other one is still there.
    TakeOver,
    /// It says for how long one can.
    TellsWindow,
    /// Clients subscribe to channels, and publish to them.
    Channels,
}

impl Target {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Encke => "encke",
            Self::Plain => "plain",
            Self::Sse => "sse",
            Self::Socketio => "socketio",
        }
    }

    pub(crate) fn scheme(self) -> Scheme {
        match self {
            Self::Encke | Self::Plain | Self::Socketio => Scheme::Ws,
            Self::Sse => Scheme::Http,
        }
    }

    /// The table of what each can do.
    pub(crate) fn can(self, ability: Ability) -> bool {
        use Ability::{
            AnswersPings, Channels, Heartbeat, Resume, TakeOver, TellsPongTimeout, TellsRecovered,
            TellsWindow,
        };
        match self {
            Self::Encke => true,
            Self::Plain => matches!(ability, Heartbeat | AnswersPings),
            // A server that does not know an id any more may say so by 204, or begin anew without a word.
            Self::Sse => matches!(ability, Resume),
            Self::Socketio => match ability {
                Heartbeat | TellsPongTimeout | AnswersPings | Resume | TellsRecovered => true,
                TakeOver | TellsWindow | Channels => false,
            },
        }
    }
}

impl fmt::Display for Ability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Heartbeat => "pings that want an answer",
            Self::TellsPongTimeout => "a pong timeout that it tells (--pong-timeout can tell it)",
            Self::AnswersPings => "answers to pings",
            Self::Resume => "resuming",
            Self::TakeOver => "taking over sessions that are alive",
            Self::TellsRecovered => "telling whether a session was recovered",
            Self::TellsWindow => "a reconnect window that it tells (--reconnect-window can tell it)",
            Self::Channels => "channels",
        })
    }
}
