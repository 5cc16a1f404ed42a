//! Kinds of servers.
//!
//! A new kind needs a variant of [`Target`], and a `Wire` or a `Dialect` that implements its greeting, heartbeats
//! and messages. `loadgen` lists which scenarios each kind supports.

mod url;

use clap::ValueEnum;
use strum::IntoStaticStr;

pub use self::url::{AdminUrl, ServerUrl, UrlScheme};

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
    /// Encke's json dialect over long-polling
    Poll,
    /// Bayeux 1.0 (CometD, Faye) over long-polling, or over WebSocket if the URL begins with ws://
    Bayeux,
}

impl Target {
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns whether clients poll for messages.
    pub fn polls(self) -> bool {
        matches!(self, Self::Poll | Self::Bayeux)
    }

    /// Returns the schemes that the URLs of this kind of server may have. If there are several, the scheme
    /// selects the transport.
    pub fn schemes(self) -> &'static [UrlScheme] {
        match self {
            Self::Encke | Self::Plain => &[UrlScheme::Ws],
            Self::Sse | Self::Poll => &[UrlScheme::Http],
            Self::Bayeux => &[UrlScheme::Http, UrlScheme::Ws],
        }
    }
}
