//! Kinds of servers, and what each of them supports.
//!
//! A new kind needs a variant of [`Target`] with its row in [`Target::can`], a variant of
//! `ProtocolConnection` in [`crate::client`], and a module next to the Socket.IO one, which implements its
//! greeting, heartbeats and messages. Scenarios need no changes.

mod admin_url;
mod host_port;
mod url;

use clap::ValueEnum;
use strum::{Display, IntoStaticStr};

pub use self::admin_url::AdminUrl;
pub use self::url::ServerUrl;
pub(crate) use self::url::UrlScheme;

/// Protocol that a server speaks.
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
    /// Bayeux 1.0 (CometD, Faye) over long-polling, or over WebSocket if the URL begins with ws://
    Bayeux,
}

/// Feature of a server that a scenario may need.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq)]
pub(crate) enum Ability {
    /// The server sends pings and expects an answer.
    #[strum(to_string = "pings that require an answer")]
    Heartbeat,
    /// The server announces how long it waits for the answer to a ping.
    #[strum(to_string = "an announced pong timeout (or --pong-timeout)")]
    AnnouncesPongTimeout,
    /// The server answers pings.
    #[strum(to_string = "answers to pings")]
    AnswersPings,
    /// A connection can continue where an earlier one ended.
    #[strum(to_string = "resuming sessions")]
    Resume,
    /// The server reports whether a session was recovered.
    #[strum(to_string = "reporting whether a session was recovered")]
    ReportsRecovered,
    /// A session can be resumed while its earlier connection is still open.
    #[strum(to_string = "taking over live sessions")]
    TakeOver,
    /// The server announces how long a session can be resumed.
    #[strum(to_string = "an announced reconnect window (or --reconnect-window)")]
    AnnouncesWindow,
    /// Clients subscribe to channels and publish to them.
    #[strum(to_string = "channels")]
    Channels,
    /// Acknowledgements are separate commands.
    #[strum(to_string = "acknowledgement commands (a poll acknowledges implicitly)")]
    Acks,
    /// The server sends messages without being polled.
    #[strum(to_string = "messages that are pushed, whether or not a client reads")]
    Pushes,
    /// Clients write WebSocket frames of the `json` dialect.
    #[strum(to_string = "the json dialect over WebSocket")]
    JsonFrames,
}

impl Target {
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }

    /// Returns whether clients poll for messages.
    pub(crate) fn polls(self) -> bool {
        matches!(self, Self::Poll | Self::Bayeux)
    }

    /// Returns the schemes that the URLs of this kind of server may have. If there are several, the scheme
    /// selects the transport.
    pub(crate) fn schemes(self) -> &'static [UrlScheme] {
        match self {
            Self::Encke | Self::Plain | Self::Socketio => &[UrlScheme::Ws],
            Self::Sse | Self::Poll => &[UrlScheme::Http],
            Self::Bayeux => &[UrlScheme::Http, UrlScheme::Ws],
        }
    }

    /// Returns whether this kind of server supports the feature.
    pub(crate) fn can(self, ability: Ability) -> bool {
        use Ability::{
            Acks, AnnouncesPongTimeout, AnnouncesWindow, AnswersPings, Channels, Heartbeat, JsonFrames,
            Pushes, ReportsRecovered, Resume, TakeOver,
        };
        match self {
            Self::Encke => true,
            Self::Plain => matches!(ability, Heartbeat | AnswersPings),
            // A server that does not know an event id may respond with 204, or start over without notice.
            Self::Sse => matches!(ability, Resume),
            Self::Socketio => match ability {
                Heartbeat | AnnouncesPongTimeout | AnswersPings | Resume | ReportsRecovered => true,
                TakeOver | AnnouncesWindow | Channels | Acks | Pushes | JsonFrames => false,
            },
            Self::Poll => match ability {
                Resume | ReportsRecovered | TakeOver | AnnouncesWindow | Channels => true,
                // A response without messages is the heartbeat, and the only answer to it is the next poll.
                Heartbeat | AnnouncesPongTimeout | AnswersPings | Acks | Pushes | JsonFrames => false,
            },
            Self::Bayeux => match ability {
                Resume | ReportsRecovered | Channels => true,
                // Not all servers announce `maxInterval`, and servers differ in how they report a take-over
                // to the pending connect.
                TakeOver | AnnouncesWindow => false,
                Heartbeat | AnnouncesPongTimeout | AnswersPings | Acks | Pushes | JsonFrames => false,
            },
        }
    }
}
