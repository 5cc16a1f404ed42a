//! Why connections and sessions end: the one place where reasons become codes.
//!
//! A new code is a variant of [`CloseCode`]; its reason text is the variant's name. If it ends a session,
//! [`CloseReason::close_code`] says for which reason.

use strum::{EnumCount, EnumMessage, FromRepr, IntoStaticStr, VariantArray};

/// The status code of a Close frame.
///
/// 4000-4099 invite the client to come back with its resume token; 4100-4199 ask it not to come back by itself. The
/// others are those of RFC 6455, section 7.4.1, and of its registry.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumCount, EnumMessage, FromRepr, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case")]
#[repr(u16)]
pub enum CloseCode {
    /// The client asked for it, by `{"close":{}}`.
    Normal = 1000,
    /// A frame that RFC 6455 does not allow.
    BadFrame = 1002,
    /// A binary message, where the dialect speaks text.
    UnsupportedData = 1003,
    /// A text message that is not UTF-8.
    InvalidPayload = 1007,
    /// A message longer than `limits.max_message`.
    TooBig = 1009,
    /// The server's own fault.
    Internal = 1011,
    /// The client had begun a message, and all unfinished ones together were too long (`limits.receive_total`).
    TryAgainLater = 1013,
    /// Nothing was received for `session.pong_timeout` after a ping.
    PongTimeout = 4000,
    /// The client did not read for `session.write_timeout`.
    SlowConsumer = 4001,
    /// The server is shutting down, and the session ends with it.
    Draining = 4002,
    /// The token's `exp` has passed: come back with a new one.
    TokenExpired = 4003,
    /// No command for `session.idle`.
    Idle = 4004,
    /// A limit of connections or sessions is reached, or the backend cannot say who comes.
    Overloaded = 4005,
    /// The session has reached `session.lifetime`.
    Lifetime = 4006,
    /// An administrator dropped the connection; the session may resume.
    Disconnected = 4007,
    /// The server process is going away, and the session goes on in the next one.
    Moved = 4008,
    /// Another connection has taken the session over.
    Replaced = 4100,
    /// An administrator ended the session.
    Kicked = 4101,
    /// No valid token, or a web page of another origin.
    Unauthorized = 4102,
    /// The client broke the rules of the dialect.
    ProtocolError = 4103,
    /// The client exceeded a limit.
    Limit = 4104,
}

impl CloseCode {
    /// Every code.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.as_array().expect("COUNT counts VARIANTS");

    /// The number in the Close frame.
    #[must_use]
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// The reason text in the Close frame.
    #[must_use]
    pub fn reason(self) -> &'static str {
        self.into()
    }

    /// Whether the client is to come back by itself.
    #[must_use]
    pub const fn invites_back(self) -> bool {
        matches!(self, Self::TryAgainLater) || matches!(self.code(), 4000..=4099)
    }

    /// What the client does then, in the words of the README.
    #[must_use]
    pub const fn client_does(self) -> &'static str {
        match self {
            Self::Normal => "is done",
            Self::BadFrame | Self::UnsupportedData | Self::InvalidPayload | Self::TooBig => {
                "does not say that again; may come back with the resume token"
            }
            Self::Internal
            | Self::TryAgainLater
            | Self::PongTimeout
            | Self::SlowConsumer
            | Self::Disconnected => "comes back with the resume token",
            Self::TokenExpired => "comes back with the resume token, and a new token",
            Self::Moved => "comes back with the resume token, to the [next process](#restarts)",
            Self::Overloaded => {
                "comes back later, as the `goaway` before it says, with the resume token if there is one"
            }
            Self::Draining | Self::Idle | Self::Lifetime => "comes back, to a new session",
            Self::Replaced | Self::Kicked | Self::Unauthorized | Self::ProtocolError | Self::Limit => {
                "does not come back by itself"
            }
        }
    }

    /// What becomes of the session, in the words of the README.
    #[must_use]
    pub const fn session_then(self) -> &'static str {
        match self {
            Self::BadFrame
            | Self::UnsupportedData
            | Self::InvalidPayload
            | Self::TooBig
            | Self::Internal
            | Self::TryAgainLater
            | Self::PongTimeout
            | Self::SlowConsumer
            | Self::TokenExpired
            | Self::Disconnected => "waits",
            Self::Moved => "waits there",
            Self::Overloaded | Self::Unauthorized => "stands, if there was one",
            Self::Replaced => "lives on there",
            Self::Normal
            | Self::Draining
            | Self::Idle
            | Self::Lifetime
            | Self::Kicked
            | Self::ProtocolError
            | Self::Limit => "ended",
        }
    }
}

/// Why a session lost its connection and waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum SuspendReason {
    /// Nothing was received for `session.pong_timeout` after a ping.
    PongTimeout,
    /// The client did not read for `session.write_timeout`.
    SlowConsumer,
    /// The token's `exp` has passed.
    TokenExpired,
    /// The client sent a Close frame.
    PeerClosed,
    /// The connection ended without a Close frame, or failed.
    ConnectionLost,
    /// The client sent what RFC 6455 or a size limit does not allow.
    BadFrame,
    /// The client had begun a message, and all unfinished ones together were too long (`limits.receive_total`).
    Unfinished,
    /// An administrator dropped the connection.
    Disconnected,
    /// No poll followed the last within `session.poll_gap`.
    PollGap,
    /// The server process is going away, and the session goes on in the next one.
    Moved,
}

impl SuspendReason {
    /// The name in logs, metrics and the admin API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum CloseReason {
    /// The client did not come back within `session.reconnect_window`.
    ReconnectWindow,
    /// The client sent the `close` command.
    Client,
    /// The server shut down.
    Draining,
    /// No command for `session.idle`.
    Idle,
    /// The session reached `session.lifetime`.
    Lifetime,
    /// An administrator ended it.
    Kicked,
    /// The client broke the rules of the dialect.
    ProtocolError,
    /// The client kept exceeding a limit.
    Limit,
}

impl CloseReason {
    /// The name in logs, metrics and the admin API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The code that the connection, if there is one, is closed with.
    #[must_use]
    pub const fn close_code(self) -> CloseCode {
        match self {
            Self::Client | Self::ReconnectWindow => CloseCode::Normal,
            Self::Draining => CloseCode::Draining,
            Self::Idle => CloseCode::Idle,
            Self::Lifetime => CloseCode::Lifetime,
            Self::Kicked => CloseCode::Kicked,
            Self::ProtocolError => CloseCode::ProtocolError,
            Self::Limit => CloseCode::Limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients, logs and dashboards depend on these.
    #[test]
    fn codes_and_reasons_are_those_of_the_contract() {
        let table = CloseCode::ALL.map(|code| (code.code(), code.reason()));
        let contract = [
            (1000, "normal"),
            (1002, "bad_frame"),
            (1003, "unsupported_data"),
            (1007, "invalid_payload"),
            (1009, "too_big"),
            (1011, "internal"),
            (1013, "try_again_later"),
            (4000, "pong_timeout"),
            (4001, "slow_consumer"),
            (4002, "draining"),
            (4003, "token_expired"),
            (4004, "idle"),
            (4005, "overloaded"),
            (4006, "lifetime"),
            (4007, "disconnected"),
            (4008, "moved"),
            (4100, "replaced"),
            (4101, "kicked"),
            (4102, "unauthorized"),
            (4103, "protocol_error"),
            (4104, "limit"),
        ];
        assert_eq!(table, contract);
        assert_eq!(SuspendReason::PeerClosed.as_str(), "peer_closed");
        assert_eq!(SuspendReason::ConnectionLost.as_str(), "connection_lost");
        assert_eq!(SuspendReason::PollGap.as_str(), "poll_gap");
        assert_eq!(SuspendReason::Moved.as_str(), "moved");
        assert_eq!(CloseReason::ReconnectWindow.as_str(), "reconnect_window");
        assert_eq!(CloseCode::from_repr(4104), Some(CloseCode::Limit));
        assert_eq!(CloseCode::from_repr(4105), None);
    }
}
