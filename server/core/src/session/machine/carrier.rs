use crate::session::{ConnectionKind, Heartbeat};

/// Kind and state of the current or last connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carrier {
    Stream(Heartbeat),
    Events,
    Poll(PollState),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PollState {
    /// The answer has not begun.
    Held,
    /// The answer is being sent, so nothing more can be sent on this poll. If the connection ends now, the
    /// client may not have received the answer.
    Answering,
    /// The client is assumed to have received the answer.
    Answered,
}

impl From<ConnectionKind> for Carrier {
    fn from(kind: ConnectionKind) -> Self {
        match kind {
            ConnectionKind::Stream(heartbeat) => Self::Stream(heartbeat),
            ConnectionKind::Events => Self::Events,
            ConnectionKind::Poll { .. } => Self::Poll(PollState::Held),
        }
    }
}
