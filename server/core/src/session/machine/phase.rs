use crate::close::CloseReason;
use crate::session::ConnectionId;

/// Phase of a session's life cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The session has a connection.
    Attached(ConnectionId),
    /// The last poll is over, and the next one is expected. Outside the state machine, the session counts as
    /// attached.
    BetweenPolls,
    /// The session has no connection and is waiting for its client to reconnect.
    Suspended,
    /// The session continues in another process, where it is suspended. This instance no longer changes.
    Moved,
    /// The session has ended.
    Closed(CloseReason),
}

impl Phase {
    /// Whether the session has a connection, or its next poll is expected.
    #[must_use]
    pub const fn has_client(self) -> bool {
        matches!(self, Self::Attached(_) | Self::BetweenPolls)
    }
}

/// A phase without its connection id. The id is stored separately, because an enum containing it would take
/// another word.
#[derive(Clone, Copy, Debug)]
pub(super) enum PhaseTag {
    Attached,
    /// Attached, while the kernel refuses bytes: the transport's `write_timeout` applies instead of Pong.
    WriteHeld,
    BetweenPolls,
    Suspended,
    Moved,
    Closed(CloseReason),
}

impl PhaseTag {
    /// Adds the connection id, which is used only while attached.
    pub(super) const fn with(self, connection: ConnectionId) -> Phase {
        match self {
            Self::Attached | Self::WriteHeld => Phase::Attached(connection),
            Self::BetweenPolls => Phase::BetweenPolls,
            Self::Suspended => Phase::Suspended,
            Self::Moved => Phase::Moved,
            Self::Closed(reason) => Phase::Closed(reason),
        }
    }
}

impl From<Phase> for PhaseTag {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Attached(_) => Self::Attached,
            Phase::BetweenPolls => Self::BetweenPolls,
            Phase::Suspended => Self::Suspended,
            Phase::Moved => Self::Moved,
            Phase::Closed(reason) => Self::Closed(reason),
        }
    }
}
