use crate::session::{ConnectionKind, Heartbeat};

/// What the current connection can do, or the last one could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carrier {
    Stream(Heartbeat),
    Events,
    Poll(PollState),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PollState {
    /// Until the answer begins.
    Held,
    /// Nothing more is said to it. If it ends so, the client may not have the answer.
    Answering,
    /// The client has the answer, for all that is known.
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
