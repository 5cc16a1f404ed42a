use std::time::Duration;

use strum::{EnumCount, EnumMessage, IntoStaticStr, VariantArray};

/// A deadline of a session. If several are due at the same time, they fire in this order.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    EnumCount,
    EnumMessage,
    IntoStaticStr,
    VariantArray,
)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum Deadline {
    /// The connection has been silent for `ping_interval`, so a ping is due.
    ///
    /// Armed while the session is attached to a stream and no ping is outstanding. When it passes, a ping is
    /// sent. Traffic received since then postpones frame heartbeats, but never message heartbeats.
    Ping,
    /// The answer to a ping is overdue.
    ///
    /// Armed from the time the ping's bytes are in the kernel until something is received, but not while a
    /// write is held. When it passes, the connection asks the kernel what it has received and what the peer
    /// has acknowledged. If the ping is queued behind data that the peer is still receiving, the deadline is
    /// armed again. On an event stream, where the client cannot answer, a TCP acknowledgement of the
    /// heartbeat counts as the answer. Otherwise the connection is dead, and the session is suspended.
    Pong,
    /// A poll, or a Bayeux `/meta/connect` over a WebSocket, has been held for its full time.
    ///
    /// Armed while the session is attached to a poll whose answer has not begun, and while a stream holds
    /// such a request. When it passes, the request is answered without messages.
    PollHold,
    /// The client has not polled again in time.
    ///
    /// Armed between polls. The time allowed is the pause that the client was asked to make plus `poll_gap`,
    /// measured from the answer. Other requests from the client postpone the deadline. When it passes, the
    /// session is suspended.
    PollGap,
    /// The client has not reconnected in time.
    ///
    /// Armed while suspended. The window begins when the last connection ended or the last poll was answered,
    /// and is restarted by other requests of the client, up to a total of two windows. When it passes, the
    /// session expires, exactly once.
    Reconnect,
    /// The client has sent no command for `session.idle`.
    ///
    /// Armed in every phase, if configured, except if the session was last attached to an event stream, on
    /// which the client cannot send commands. Postponed by commands, but not by acknowledgements or pongs.
    /// When it passes, the session is closed.
    Idle,
    /// The client's token has expired.
    ///
    /// Armed while the session is attached or between polls, if the token has an `exp`. When it passes, the
    /// session is suspended.
    Token,
    /// The session has reached its maximum lifetime.
    ///
    /// Armed in every phase, if configured. When it passes, the session is closed.
    Lifetime,
}

impl Deadline {
    /// Every deadline, in the order in which they fire.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.as_array().expect("COUNT counts VARIANTS");

    /// The name in metrics and the admin API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The configured timeouts of sessions, shared by all of them. The defaults are defined in the configuration
/// only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionTimeouts {
    /// Maximum silence on a stream before a ping is sent ([`Deadline::Ping`]).
    pub ping_interval: Duration,
    /// Maximum time until a ping is answered ([`Deadline::Pong`]).
    pub pong_timeout: Duration,
    /// Maximum time that a poll is held ([`Deadline::PollHold`]).
    pub poll_hold: Duration,
    /// Time allowed for the next poll, in addition to the pause that the client was asked to make
    /// ([`Deadline::PollGap`]). Shorter than `reconnect_window`.
    pub poll_gap: Duration,
    /// How long a suspended session waits for its client ([`Deadline::Reconnect`]).
    pub reconnect_window: Duration,
    /// Maximum time without a command from the client ([`Deadline::Idle`]).
    pub idle: Option<Duration>,
    /// Maximum lifetime of a session ([`Deadline::Lifetime`]).
    pub lifetime: Option<Duration>,
}
