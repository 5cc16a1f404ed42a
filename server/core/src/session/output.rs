use std::time::Duration;

use arrayvec::ArrayVec;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use super::{ConnectionId, Deadline, SessionTimeouts};
use crate::Timestamp;
use crate::close::{CloseCode, CloseReason, SuspendReason};

/// What the owner of a session lends it for one step: its clock, its settings, and the place where the session leaves what is to be done.
/// So a session that does nothing has no memory for any of these.
#[derive(Debug)]
pub struct Step<'a> {
    /// When it happens.
    pub now: Timestamp,
    /// How long the session waits, for what is armed from here on.
    pub timeouts: &'a SessionTimeouts,
    /// What is to be done, oldest first. Empty before the step; one step may have several calls, all at `now`.
    pub outputs: &'a mut Outputs,
}

/// The outputs of one step.
pub type Outputs = ArrayVec<Output, 16>;

/// What the owner of a session has to do for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Have a ping written, then report [`super::ConnectionInput::PingSent`].
    Ping(ConnectionId),
    /// Have the connection check what the kernel holds, then report [`super::ConnectionInput::Probed`].
    Probe(ConnectionId),
    /// Answer the request that is held, without a message if there is none. A poll hears nothing more after this.
    AnswerPoll(ConnectionId),
    /// Answer the poll at once, and say that another has come. The session is already detached from it.
    Superseded(ConnectionId),
    /// Close the connection with this code; answer a poll with it. The session is already detached from it.
    Close(ConnectionId, CloseCode),
    /// For logs, metrics and hooks.
    Event(LifecycleEvent),
    /// A deadline was due at this instant and has been acted on.
    Fired(Deadline, Timestamp),
    /// A pong came back this long after its ping.
    RoundTrip(Duration),
}

/// One transition of a session, numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifecycleEvent {
    /// Counts the events of one session from 1. Two threads may report two events in either order.
    pub number: u32,
    /// What happened.
    pub transition: Transition,
}

/// A change of a session's phase or connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum ResumeKind {
    /// It had no connection.
    Reconnect,
    /// It still had one, which the new one replaces.
    TakeOver,
}

impl Transition {
    /// Every transition with every reason that it may have.
    pub fn all() -> impl Iterator<Item = Self> {
        let suspended = SuspendReason::VARIANTS.iter().copied().map(Self::Suspended);
        let resumed = ResumeKind::VARIANTS.iter().copied().map(Self::Resumed);
        // A session whose client does not come back in time has expired.
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

    /// Whether the session is over.
    #[must_use]
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Expired | Self::Closed(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new variant belongs into `all`, and here.
    #[test]
    fn all_transitions_are_all() {
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
