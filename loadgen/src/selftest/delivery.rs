//! Faults in the delivery of a message.

/// How a message is delivered to one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeliveryFault {
    Sent,
    Lost,
    Doubled,
    /// Sent after the next message.
    HeldBack,
    Changed,
    /// Sent, followed by a message that was never published.
    WithForeign,
    /// A gap is sent instead of the message.
    Gap,
}
