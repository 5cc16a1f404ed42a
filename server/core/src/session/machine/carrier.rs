use crate::session::{ConnectionKind, Heartbeat};

/// Kind and state of the current or last connection. Takes one byte, because only one variant has a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carrier {
    /// A stream with [`Heartbeat::Frame`].
    FrameStream,
    /// A stream with [`Heartbeat::Message`].
    MessageStream,
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

impl Carrier {
    pub(super) fn is_stream(self) -> bool {
        matches!(self, Self::FrameStream | Self::MessageStream)
    }
}

impl From<ConnectionKind> for Carrier {
    fn from(kind: ConnectionKind) -> Self {
        match kind {
            ConnectionKind::Stream(Heartbeat::Frame) => Self::FrameStream,
            ConnectionKind::Stream(Heartbeat::Message) => Self::MessageStream,
            ConnectionKind::Events => Self::Events,
            ConnectionKind::Poll { .. } => Self::Poll(PollState::Held),
        }
    }
}
