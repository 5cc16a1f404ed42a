//! Why connections and sessions end: the one place where reasons become codes.

/// The status code of a Close frame.
///
/// 4000-4099 invite the client to come back and offer its resume token; 4100-4199 ask it not to come back by
/// itself. The others are those of RFC 6455, section 7.4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum CloseCode {
    /// The client asked for it.
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
    /// Nothing was heard for `session.pong_timeout` after a ping.
    PongTimeout = 4000,
    /// The client did not read for `session.write_timeout`.
    SlowConsumer = 4001,
    /// The server is going away, and the session with it.
    Draining = 4002,
    /// The token's `exp` has passed: come back with a new one.
    TokenExpired = 4003,
    /// No command for `session.idle`.
    Idle = 4004,
    /// The server is full. A session that was there is not touched.
    Overloaded = 4005,
    /// The session has reached `session.lifetime`.
    Lifetime = 4006,
    /// An administrator dropped the connection; the session may resume.
    Disconnected = 4007,
    /// Another connection has taken the session over.
    Replaced = 4100,
    /// An administrator ended the session.
    Kicked = 4101,
    /// The client may not do what it asked for.
    Unauthorized = 4102,
    /// The client broke the rules of the dialect.
    ProtocolError = 4103,
    /// The client went beyond a limit.
    Limit = 4104,
}

impl CloseCode {
    /// Every code.
    pub const ALL: [Self; 19] = [
        Self::Normal,
        Self::BadFrame,
        Self::UnsupportedData,
        Self::InvalidPayload,
        Self::TooBig,
        Self::Internal,
        Self::PongTimeout,
        Self::SlowConsumer,
        Self::Draining,
        Self::TokenExpired,
        Self::Idle,
        Self::Overloaded,
        Self::Lifetime,
        Self::Disconnected,
        Self::Replaced,
        Self::Kicked,
        Self::Unauthorized,
        Self::ProtocolError,
        Self::Limit,
    ];

    /// The number in the Close frame.
    #[must_use]
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// The reason text in the Close frame.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::BadFrame => "bad_frame",
            Self::UnsupportedData => "unsupported_data",
            Self::InvalidPayload => "invalid_payload",
            Self::TooBig => "too_big",
            Self::Internal => "internal",
            Self::PongTimeout => "pong_timeout",
            Self::SlowConsumer => "slow_consumer",
            Self::Draining => "draining",
            Self::TokenExpired => "token_expired",
            Self::Idle => "idle",
            Self::Overloaded => "overloaded",
            Self::Lifetime => "lifetime",
            Self::Disconnected => "disconnected",
            Self::Replaced => "replaced",
            Self::Kicked => "kicked",
            Self::Unauthorized => "unauthorized",
            Self::ProtocolError => "protocol_error",
            Self::Limit => "limit",
        }
    }
}

/// Why a session lost its connection and waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SuspendReason {
    /// Nothing was heard for `session.pong_timeout` after a ping.
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
    /// An administrator dropped the connection.
    Disconnected,
}

impl SuspendReason {
    /// The name in logs, metrics and the admin API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PongTimeout => "pong_timeout",
            Self::SlowConsumer => "slow_consumer",
            Self::TokenExpired => "token_expired",
            Self::PeerClosed => "peer_closed",
            Self::ConnectionLost => "connection_lost",
            Self::BadFrame => "bad_frame",
            Self::Disconnected => "disconnected",
        }
    }
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// The client did not come back within `session.reconnect_window`.
    ReconnectWindow,
    /// The client sent the `close` command.
    Client,
    /// The server went away.
    Draining,
    /// No command for `session.idle`.
    Idle,
    /// The session reached `session.lifetime`.
    Lifetime,
    /// An administrator ended it.
    Kicked,
    /// The client broke the rules of the dialect.
    ProtocolError,
    /// The client went on beyond a limit.
    Limit,
}

impl CloseReason {
    /// The name in logs, metrics and the admin API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReconnectWindow => "reconnect_window",
            Self::Client => "client",
            Self::Draining => "draining",
            Self::Idle => "idle",
            Self::Lifetime => "lifetime",
            Self::Kicked => "kicked",
            Self::ProtocolError => "protocol_error",
            Self::Limit => "limit",
        }
    }

    /// What the connection, if there is one, is told.
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
