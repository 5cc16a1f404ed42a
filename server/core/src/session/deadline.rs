use std::time::Duration;

use strum::{EnumCount, EnumMessage, IntoStaticStr, VariantArray};

/// What a session waits for. When several are due at once, the first in this order acts first.
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
    /// The connection has been silent long enough to send a ping.
    ///
    /// Armed while attached to a stream with no ping outstanding. When it passes, a ping is sent; frame
    /// heartbeats are postponed by traffic received since, message heartbeats never.
    Ping,
    /// The answer to a ping is overdue.
    ///
    /// Armed from the moment the ping's bytes are in the kernel until something is received, but not while a write
    /// is held. When it passes, the connection asks the kernel what it has received and what the peer has acknowledged.
    /// While the ping stands behind data that the peer is taking, it is armed again. For a stream of events, on which no
    /// answer can come, the acknowledgement of the heartbeat is one. Otherwise the connection is dead and the session suspends.
    Pong,
    /// A request for what is new has been held long enough.
    ///
    /// Armed while attached to a poll whose answer has not begun, and while a stream holds such a request. When it passes, the
    /// request is answered empty.
    PollHold,
    /// The client has not polled again.
    ///
    /// Armed between two polls, from the answer on: the pause that the client was asked to make, and `poll_gap`. Put off by
    /// whatever else the client asks for meanwhile. When it passes, the session suspends.
    PollGap,
    /// The client has not come back.
    ///
    /// Armed while suspended. The window begins when the last connection ended, or the last poll was answered, and again with
    /// whatever else the client asks for, but goes on for no longer than two windows. When it passes, the session ends as
    /// expired, exactly once.
    Reconnect,
    /// The client has sent no command.
    ///
    /// Always armed, if configured, except for a session that was last attached to a stream of events, over which no
    /// command can come; postponed by commands, not by acknowledgements or pongs. When it passes, the session closes.
    Idle,
    /// The client's token has expired.
    ///
    /// Armed while attached, and between polls, with a token that has an `exp`. When it passes, the session suspends.
    Token,
    /// The session has reached the longest allowed lifetime.
    ///
    /// Always armed, if configured. When it passes, the session closes.
    Lifetime,
}

impl Deadline {
    /// Every deadline, in the order in which they act.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.as_array().expect("COUNT counts VARIANTS");

    /// The name in metrics and the admin API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// How long a session waits for each of its deadlines. Shared by all sessions. Configuration alone has defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionTimeouts {
    /// The longest silence on a stream before a ping ([`Deadline::Ping`]).
    pub ping_interval: Duration,
    /// How long an answer may take ([`Deadline::Pong`]).
    pub pong_timeout: Duration,
    /// The longest that a poll is held ([`Deadline::PollHold`]).
    pub poll_hold: Duration,
    /// How long the next poll may take to come, beyond the pause that the client was asked to make
    /// ([`Deadline::PollGap`]). Shorter than the window.
    pub poll_gap: Duration,
    /// How long a session waits for its client ([`Deadline::Reconnect`]).
    pub reconnect_window: Duration,
    /// How long a client may go without a command ([`Deadline::Idle`]).
    pub idle: Option<Duration>,
    /// How long a session may live ([`Deadline::Lifetime`]).
    pub lifetime: Option<Duration>,
}
