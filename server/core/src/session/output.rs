use std::time::Duration;

use arrayvec::ArrayVec;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use super::{ConnectionId, Deadline, SessionTimeouts};
use crate::Timestamp;
use crate::close::{CloseCode, CloseReason, SuspendReason};

/// Context that a session's owner provides for one step: the clock, the settings and a buffer for the
/// outputs. Sharing these keeps idle sessions from using memory for them.
#[derive(Debug)]
pub struct StepContext<'a> {
    /// Time of the step.
    pub now: Timestamp,
    /// Timeouts for the deadlines armed during this step.
    pub timeouts: &'a SessionTimeouts,
    /// Outputs, oldest first. Empty before the step. A step may consist of several calls, all with the same
    /// `now`.
    pub outputs: &'a mut Outputs,
}

/// Outputs of one step.
pub type Outputs = ArrayVec<Output, 16>;

/// An action for the owner of a session to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Write a ping, then report [`super::ConnectionInput::PingSent`].
    Ping(ConnectionId),
    /// Check what the kernel has received on the connection, then report [`super::ConnectionInput::Probed`].
    Probe(ConnectionId),
    /// Answer the held request, even if there are no messages. For a poll, this is the last output.
    AnswerPoll(ConnectionId),
    /// Answer the poll immediately, reporting that a newer one has replaced it. The session is already
    /// detached from the answered poll.
    Superseded(ConnectionId),
    /// Close the connection with this code; on a poll, send the code as the answer. The session is already
    /// detached from the connection.
    Close(ConnectionId, CloseCode),
    /// Report the event to logs, metrics and hooks.
    Event(LifecycleEvent),
    /// Record that this deadline, which was due at this time, has fired.
    Fired(Deadline, Timestamp),
    /// Record the time between a ping and its pong.
    RoundTrip(Duration),
}

/// A numbered transition of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifecycleEvent {
    /// Number of the event within its session, starting at 1. If two threads report events, they may do so in
    /// either order.
    pub number: u32,
    /// The transition.
    pub transition: Transition,
}

/// A change of a session's phase or connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Transition {
    /// The session was opened.
    Opened,
    /// The session lost its connection.
    Suspended(SuspendReason),
    /// The session was attached to a new connection.
    Resumed(ResumeKind),
    /// The client did not reconnect in time.
    Expired,
    /// The session was closed.
    Closed(CloseReason),
}

/// How a session got a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum ResumeKind {
    /// When the client reconnected, the session had no connection.
    Reconnect,
    /// When the client reconnected, the session still had a connection; the new connection replaced it.
    TakeOver,
}

impl Transition {
    /// Iterates over every transition with each of its possible reasons.
    pub fn all() -> impl Iterator<Item = Self> {
        let suspended = SuspendReason::VARIANTS.iter().copied().map(Self::Suspended);
        let resumed = ResumeKind::VARIANTS.iter().copied().map(Self::Resumed);
        // `ReconnectWindow` is reported as `Expired`.
        let closing = CloseReason::VARIANTS.iter().filter(|reason| **reason != CloseReason::ReconnectWindow);
        let closed = closing.copied().map(Self::Closed);
        [Self::Opened].into_iter().chain(suspended).chain(resumed).chain([Self::Expired]).chain(closed)
    }

    /// The event's name in logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The event's reason in logs and metrics.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Opened => "connect",
            Self::Suspended(reason) => reason.into(),
            Self::Resumed(kind) => kind.into(),
            Self::Expired => CloseReason::ReconnectWindow.into(),
            Self::Closed(reason) => reason.into(),
        }
    }

    /// Whether the transition ends the session.
    #[must_use]
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Expired | Self::Closed(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new variant must be added to `Transition::all` and to this test.
    #[test]
    fn all_lists_every_transition() {
        let mut counts = [0; 5];
        for transition in Transition::all() {
            let kind = match transition {
                Transition::Opened => 0,
                Transition::Suspended(_) => 1,
                Transition::Resumed(_) => 2,
                Transition::Expired => 3,
                Transition::Closed(_) => 4,
            };
            counts[kind] += 1;
        }
        let (suspended, resumed) = (SuspendReason::VARIANTS.len(), ResumeKind::VARIANTS.len());
        assert_eq!(counts, [1, suspended, resumed, 1, CloseReason::VARIANTS.len() - 1]);
    }

    #[test]
    fn transitions_have_names_and_reasons() {
        let table = [
            (Transition::Opened, "opened", "connect"),
            (Transition::Suspended(SuspendReason::SlowConsumer), "suspended", "slow_consumer"),
            (Transition::Resumed(ResumeKind::Reconnect), "resumed", "reconnect"),
            (Transition::Resumed(ResumeKind::TakeOver), "resumed", "take_over"),
            (Transition::Expired, "expired", "reconnect_window"),
            (Transition::Closed(CloseReason::Kicked), "closed", "kicked"),
        ];
        for (transition, name, reason) in table {
            assert_eq!((transition.name(), transition.reason()), (name, reason));
        }
    }
}
