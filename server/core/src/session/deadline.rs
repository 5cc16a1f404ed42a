use std::time::Duration;

use crate::Timestamp;

/// What a session waits for. When several are due at once, the one that stands first here acts first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Deadline {
    /// The connection has been silent for long enough to ask.
    ///
    /// Armed while attached to a stream with no ping outstanding. When it passes, a ping is sent; frame
    /// heartbeats are postponed by traffic heard since, message heartbeats never.
    Ping,
    /// The answer to a ping is overdue.
    ///
    /// Armed from the moment the ping's bytes are in the kernel until something is heard, but not while a write
    /// is held. When it passes, the connection looks at what the kernel holds; if that is nothing, the
    /// connection is dead and the session suspends.
    Pong,
    /// A long-poll request has been held for long enough.
    ///
    /// Armed while attached to a poll. When it passes, the request is answered empty.
    PollHold,
    /// The client has not come back.
    ///
    /// Armed while suspended. When it passes, the session ends as expired, exactly once.
    Reconnect,
    /// The client has asked for nothing.
    ///
    /// Armed always, if configured, save for a session that was last attached to a stream of events, over which none can
    /// come; put off by commands, not by acknowledgements or pongs. When it passes, the session closes.
    Idle,
    /// The client's token has run out.
    ///
    /// Armed while attached with a token that has an `exp`. When it passes, the session suspends.
    Token,
    /// The session has lived for as long as any may.
    ///
    /// Armed always, if configured. When it passes, the session closes.
    Lifetime,
}

impl Deadline {
    /// Every deadline, in the order in which they act.
    pub const ALL: [Self; 7] =
        [Self::Ping, Self::Pong, Self::PollHold, Self::Reconnect, Self::Idle, Self::Token, Self::Lifetime];

    /// The name in metrics and the admin API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Pong => "pong",
            Self::PollHold => "poll_hold",
            Self::Reconnect => "reconnect",
            Self::Idle => "idle",
            Self::Token => "token",
            Self::Lifetime => "lifetime",
        }
    }
}

/// How long a session waits for each of its deadlines. Shared by all sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// The longest a stream stays silent before it is asked ([`Deadline::Ping`]).
    pub ping_interval: Duration,
    /// How long an answer may take ([`Deadline::Pong`]).
    pub pong_timeout: Duration,
    /// How long a poll is held ([`Deadline::PollHold`]).
    pub poll_hold: Duration,
    /// How long a session waits for its client ([`Deadline::Reconnect`]).
    pub reconnect_window: Duration,
    /// How long a client may go without a command ([`Deadline::Idle`]).
    pub idle: Option<Duration>,
    /// How long a session may live ([`Deadline::Lifetime`]).
    pub lifetime: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            ping_interval: Duration::from_secs(25),
            pong_timeout: Duration::from_secs(10),
            poll_hold: Duration::from_secs(30),
            reconnect_window: Duration::from_secs(120),
            idle: None,
            lifetime: Some(Duration::from_secs(24 * 60 * 60)),
        }
    }
}

/// The deadlines of one session: an instant for each that is armed.
#[derive(Clone, Debug, Default)]
pub(super) struct DeadlineTable {
    at: [Option<Timestamp>; Deadline::ALL.len()],
}

impl DeadlineTable {
    pub(super) fn arm(&mut self, deadline: Deadline, at: Timestamp) {
        self.at[deadline as usize] = Some(at);
    }

    pub(super) fn disarm(&mut self, deadline: Deadline) {
        self.at[deadline as usize] = None;
    }

    pub(super) fn disarm_all(&mut self) {
        *self = Self::default();
    }

    /// The first to pass; among equals, the first of [`Deadline::ALL`].
    pub(super) fn earliest(&self) -> Option<(Timestamp, Deadline)> {
        self.armed().min_by_key(|(at, _)| *at)
    }

    pub(super) fn armed(&self) -> impl Iterator<Item = (Timestamp, Deadline)> + '_ {
        Deadline::ALL.into_iter().filter_map(|deadline| Some((self.at[deadline as usize]?, deadline)))
    }
}
