//! Why connections and sessions end, and the mapping of these reasons to close codes.
//!
//! A new code is a variant of [`CloseCode`]; the variant's name becomes its reason text. If the code ends
//! sessions, [`CloseReason::close_code`] maps a reason to it.

use strum::{EnumCount, EnumMessage, FromRepr, IntoStaticStr, VariantArray};

/// Status code of a Close frame.
///
/// Codes 4000-4099 invite the client to reconnect with its resume token; 4100-4199 ask it not to reconnect on
/// its own. The other codes are defined in RFC 6455, section 7.4.1, and its IANA registry.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumCount, EnumMessage, FromRepr, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case")]
#[repr(u16)]
pub enum CloseCode {
    /// The client sent `{"close":{}}`.
    Normal = 1000,
    /// The client sent a frame that RFC 6455 does not allow.
    BadFrame = 1002,
    /// The client sent a binary message, but the dialect allows only text.
    UnsupportedData = 1003,
    /// The client sent a text message that is not valid UTF-8.
    InvalidPayload = 1007,
    /// The client sent a message longer than `limits.max_message`.
    TooBig = 1009,
    /// Because of a bug in the server, the session's state is unreliable.
    Internal = 1011,
    /// The partial messages of all clients together exceeded `limits.receive_total`, so the server discarded
    /// the partial message of this client.
    TryAgainLater = 1013,
    /// After a ping, the server received nothing for `session.pong_timeout`.
    PongTimeout = 4000,
    /// For the duration of `session.write_timeout`, the client read too slowly.
    SlowConsumer = 4001,
    /// The server is shutting down, which ends the session.
    Draining = 4002,
    /// The token has expired (`exp`); the client needs a new token.
    TokenExpired = 4003,
    /// The client sent no command for `session.idle`.
    Idle = 4004,
    /// The server has reached its limit of connections or sessions.
    Overloaded = 4005,
    /// The session reached `session.lifetime`.
    Lifetime = 4006,
    /// An administrator closed the connection; the session can be resumed.
    Disconnected = 4007,
    /// The server process is exiting, and the session continues in the next process; or another server has just taken the
    /// session.
    Moved = 4008,
    /// The client was not authenticated, because the backend failed or its answer was not valid.
    BackendFailed = 4009,
    /// Another connection has taken over the session.
    Replaced = 4100,
    /// An administrator ended the session.
    Kicked = 4101,
    /// The token is missing or invalid, the backend refused the client, or the web page's origin is not
    /// allowed.
    Unauthorized = 4102,
    /// The client violated the dialect's protocol.
    ProtocolError = 4103,
    /// The client exceeded a limit.
    Limit = 4104,
}

impl CloseCode {
    /// Every code, in ascending order.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.as_array().expect("COUNT counts VARIANTS");

    /// The numeric code in the Close frame.
    #[must_use]
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// The reason text in the Close frame.
    #[must_use]
    pub fn reason(self) -> &'static str {
        self.into()
    }

    /// Whether the client should reconnect on its own.
    #[must_use]
    pub const fn allows_reconnect(self) -> bool {
        matches!(self, Self::Internal | Self::TryAgainLater) || matches!(self.code(), 4000..=4099)
    }

    /// The client's reaction to this code, as shown in the reference.
    #[must_use]
    pub const fn client_action(self) -> &'static str {
        match self {
            Self::Normal => "makes no further requests",
            Self::BadFrame | Self::UnsupportedData | Self::InvalidPayload | Self::TooBig => {
                "may reconnect with the resume token, without repeating the offending frame"
            }
            Self::TryAgainLater | Self::PongTimeout | Self::SlowConsumer | Self::Disconnected => {
                "reconnects with the resume token"
            }
            Self::TokenExpired => "reconnects with the resume token and a new token",
            Self::Moved => {
                "reconnects with the resume token, to the [next process](../operations/restarts.md)"
            }
            Self::Overloaded | Self::BackendFailed => {
                "reconnects after the time given in the preceding `goaway`, with its resume token if it has one"
            }
            Self::Internal | Self::Draining | Self::Idle | Self::Lifetime => {
                "reconnects and gets a new session"
            }
            Self::Replaced | Self::Kicked | Self::Unauthorized | Self::ProtocolError | Self::Limit => {
                "does not reconnect on its own"
            }
        }
    }

    /// The effect of this code on the session, as shown in the reference.
    #[must_use]
    pub const fn session_outcome(self) -> &'static str {
        match self {
            Self::BadFrame
            | Self::UnsupportedData
            | Self::InvalidPayload
            | Self::TooBig
            | Self::TryAgainLater
            | Self::PongTimeout
            | Self::SlowConsumer
            | Self::TokenExpired
            | Self::Disconnected => "suspended",
            Self::Moved => "suspended in the next process",
            Self::Overloaded | Self::BackendFailed | Self::Unauthorized => "unchanged if it already existed",
            Self::Replaced => "continues on the new connection",
            Self::Normal
            | Self::Internal
            | Self::Draining
            | Self::Idle
            | Self::Lifetime
            | Self::Kicked
            | Self::ProtocolError
            | Self::Limit => "ended",
        }
    }
}

/// Why a session lost its connection and was suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum SuspendReason {
    /// After a ping, the server received nothing for `session.pong_timeout`.
    PongTimeout,
    /// For the duration of `session.write_timeout`, the client read too slowly.
    SlowConsumer,
    /// The token has expired (`exp`).
    TokenExpired,
    /// The client sent a Close frame.
    PeerClosed,
    /// The connection failed, or ended without a Close frame.
    ConnectionLost,
    /// The client sent a frame that RFC 6455 does not allow, or a message that is too long.
    BadFrame,
    /// The partial messages of all clients together exceeded `limits.receive_total`, so the server discarded
    /// the partial message of this client.
    Unfinished,
    /// An administrator closed the connection.
    Disconnected,
    /// The client did not poll again within `session.poll_gap`.
    PollGap,
    /// The server process is exiting, and the session continues in the next process.
    Moved,
    /// The server of the connection has failed, and another server continues the session.
    ServerLost,
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
    /// The client did not reconnect within `session.reconnect_window`.
    ReconnectWindow,
    /// The client sent the `close` command.
    Client,
    /// The server was shut down.
    Draining,
    /// The client sent no command for `session.idle`.
    Idle,
    /// The session reached `session.lifetime`.
    Lifetime,
    /// An administrator ended the session.
    Kicked,
    /// The client violated the dialect's protocol.
    ProtocolError,
    /// The client kept exceeding its command rate, or the session was suspended and evicted because
    /// `limits.max_sessions` was reached.
    Limit,
    /// Because of a bug in the server, a panic interrupted a change of the session's state.
    Internal,
}

impl CloseReason {
    /// The name in logs, metrics and the admin API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The code with which the session's connection is closed, if it has one.
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
            Self::Internal => CloseCode::Internal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients, logs and dashboards depend on these values.
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
            (4009, "backend_failed"),
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
