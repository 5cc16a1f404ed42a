use std::time::Duration;

use super::{ConnectionId, Deadline};
use crate::Timestamp;
use crate::close::{CloseCode, CloseReason, SuspendReason};

/// What is to be done for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Have a ping written, then tell [`super::ConnectionInput::PingSent`].
    Ping(ConnectionId),
    /// Have the connection look at what the kernel holds, then tell [`super::ConnectionInput::Probed`].
    Probe(ConnectionId),
    /// Answer the poll, without a message.
    AnswerPoll(ConnectionId),
    /// Close the connection with this code. The session has already let go of it.
    Close(ConnectionId, CloseCode),
    /// Tell logs, metrics and hooks.
    Event(Event),
    /// A deadline passed at this instant and was acted on now.
    Fired(Deadline, Timestamp),
    /// A pong came back this long after its ping.
    RoundTrip(Duration),
}

/// A lifecycle event: one for each transition of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Counts the events of one session from 1. Two threads may tell of two events in either order.
    pub number: u32,
    /// What happened.
    pub transition: Transition,
}

/// A change of a session's phase or connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// The session began.
    Opened,
    /// It lost its connection.
    Suspended(SuspendReason),
    /// It got a new one.
    Resumed(ResumeKind),
    /// Its client did not come back in time.
    Expired,
    /// It was ended.
    Closed(CloseReason),
}

/// How a session got its new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumeKind {
    /// It had none.
    Reconnect,
    /// It was taken from the old one.
    TakeOver,
}

impl Transition {
    /// The event's name in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Suspended(_) => "suspended",
            Self::Resumed(_) => "resumed",
            Self::Expired => "expired",
            Self::Closed(_) => "closed",
        }
    }

    /// The event's reason in logs and metrics.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Opened => "connect",
            Self::Suspended(reason) => reason.as_str(),
            Self::Resumed(ResumeKind::Reconnect) => "reconnect",
            Self::Resumed(ResumeKind::TakeOver) => "take_over",
            Self::Expired => CloseReason::ReconnectWindow.as_str(),
            Self::Closed(reason) => reason.as_str(),
        }
    }

    /// Whether the session is over.
    #[must_use]
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Expired | Self::Closed(_))
    }
}
