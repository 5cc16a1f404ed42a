//! What kinds of servers there are, and what each can be asked for.
//!
//! A new one is a variant of [`Target`] with its row of the table, one of `Wire` in [`crate::client`], and a module
//! beside that of Socket.IO which knows its greeting, its heartbeats and its messages. No scenario has to know of it.

mod admin_url;
mod host_port;
mod url;

use clap::ValueEnum;
use strum::{Display, IntoStaticStr};

pub use self::admin_url::AdminUrl;
pub(crate) use self::url::Scheme;
pub use self::url::ServerUrl;

/// What a server speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoStaticStr, ValueEnum)]
#[strum(serialize_all = "lowercase")]
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
    /// Encke's json dialect over long-polling
    Poll,
    /// Bayeux 1.0 (CometD, Faye) over long-polling, or with a URL of ws:// over WebSocket
    Bayeux,
}

/// What a scenario may need of a server.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq)]
pub(crate) enum Ability {
    /// It pings, and wants an answer.
    #[strum(to_string = "pings that want an answer")]
    Heartbeat,
    /// It says how long it waits for that answer.
    #[strum(to_string = "a pong timeout that it tells (--pong-timeout can tell it)")]
    TellsPongTimeout,
    /// It answers pings.
    #[strum(to_string = "answers to pings")]
    AnswersPings,
    /// A connection can go on where another one ended.
    #[strum(to_string = "resuming")]
    Resume,
    /// It says whether one did.
    #[strum(to_string = "telling whether a session was recovered")]
    TellsRecovered,
    /// So also while the other one is still there.
    #[strum(to_string = "taking over sessions that are alive")]
    TakeOver,
    /// It says for how long one can.
    #[strum(to_string = "a reconnect window that it tells (--reconnect-window can tell it)")]
    TellsWindow,
    /// Clients subscribe to channels, and publish to them.
    #[strum(to_string = "channels")]
    Channels,
    /// Acknowledgements that are commands of their own.
    #[strum(to_string = "acknowledgements that are commands (a poll acknowledges by itself)")]
    Acks,
    /// What is sent does not wait until it is asked for.
    #[strum(to_string = "messages that come unasked, whether or not a client reads")]
    Pushes,
    /// Its clients write frames.
    #[strum(to_string = "the json dialect over WebSocket")]
    JsonFrames,
}

impl Target {
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }

    /// Whether its clients ask, and are answered when there is something.
    pub(crate) fn polls(self) -> bool {
        matches!(self, Self::Poll | Self::Bayeux)
    }

    /// The schemes of its URLs. Where there are several, they say what it is spoken over.
    pub(crate) fn schemes(self) -> &'static [Scheme] {
        match self {
            Self::Encke | Self::Plain | Self::Socketio => &[Scheme::Ws],
            Self::Sse | Self::Poll => &[Scheme::Http],
            Self::Bayeux => &[Scheme::Http, Scheme::Ws],
        }
    }

    /// The table of what each can do.
    pub(crate) fn can(self, ability: Ability) -> bool {
        use Ability::{
            Acks, AnswersPings, Channels, Heartbeat, JsonFrames, Pushes, Resume, TakeOver, TellsPongTimeout,
            TellsRecovered, TellsWindow,
        };
        match self {
            Self::Encke => true,
            Self::Plain => matches!(ability, Heartbeat | AnswersPings),
            // A server that does not know an id any more may say so by 204, or begin anew without a word.
            Self::Sse => matches!(ability, Resume),
            Self::Socketio => match ability {
                Heartbeat | TellsPongTimeout | AnswersPings | Resume | TellsRecovered => true,
                TakeOver | TellsWindow | Channels | Acks | Pushes | JsonFrames => false,
            },
            Self::Poll => match ability {
                Resume | TellsRecovered | TakeOver | TellsWindow | Channels => true,
                // An empty answer is its heartbeat, and the next poll wants no other answer than that.
                Heartbeat | TellsPongTimeout | AnswersPings | Acks | Pushes | JsonFrames => false,
            },
            Self::Bayeux => match ability {
                Resume | TellsRecovered | Channels => true,
                // Not all servers tell `maxInterval`. What a first connect is told of a second one, each says in its own way.
                TakeOver | TellsWindow => false,
                Heartbeat | TellsPongTimeout | AnswersPings | Acks | Pushes | JsonFrames => false,
            },
        }
    }
}
