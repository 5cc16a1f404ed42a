//! What a server can do to a message.

/// What becomes of one message that one session is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    Sent,
    Lost,
    Doubled,
    /// Sent after the next one.
    HeldBack,
    Changed,
    /// Sent, followed by a message that was never published.
    WithForeign,
    /// A gap is sent instead.
    Gap,
}
