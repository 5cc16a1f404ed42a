//! Types exchanged between an outbox and its owner.

use super::notice::EndReason;

/// Identifies a subscription of one outbox while it exists. Slots are reused, so a stale one may refer to a
/// different subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionSlot(pub(in crate::session) u32);

/// Behaviour of a full ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// No new messages are sent until the client acknowledges some.
    Stop,
    /// The oldest entry is evicted. Used for transports on which the client cannot acknowledge.
    Wrap,
}

/// The subscription to serve next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Slot of the subscription.
    pub slot: SubscriptionSlot,
    /// First offset to read from the channel's log. Offsets start at 1.
    pub from: u64,
}

/// The offsets that a channel's log holds: `first..=last`. The log is empty if `first` is `last + 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogBounds {
    /// Offset of the oldest message in the log.
    pub first: u64,
    /// Offset of the newest message ever published.
    pub last: u64,
}

/// Result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnOutcome {
    /// `count` messages with consecutive offsets from `offset` and consecutive seqs from `seq`.
    Messages {
        /// Seq of the first message.
        seq: u64,
        /// Offset of the first message.
        offset: u64,
        /// Number of messages, at least one.
        count: usize,
        /// Whether the subscription has reached the end of its log. If so, it has no other turn until
        /// [`super::Outbox::mark_ready`].
        caught_up: bool,
    },
    /// Messages that the client should have received but no longer can.
    Gap {
        /// Seq of the gap.
        seq: u64,
        /// First and last missing offset, if known.
        range: Option<(u64, u64)>,
    },
    /// A notice that a subscription has begun without the client's request. It has no seq.
    Begun {
        /// Offset of the message before the first one to be sent.
        offset: u64,
    },
    /// A notice that a subscription has ended without the client's request. It has no seq.
    Ended(EndReason),
    /// Nothing is sent, because another subscription had already sent the next messages. More messages
    /// follow.
    Skipped,
    /// Nothing is sent, because another subscription must reach the same message first. That subscription has
    /// a turn before the next turn of this one.
    Blocked,
    /// Nothing is sent, because the subscription has reached the end of its log. It has no other turn until
    /// [`super::Outbox::mark_ready`].
    CaughtUp,
}

/// A live subscription as seen by the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionView<'a, C> {
    /// Slot of the subscription.
    pub slot: SubscriptionSlot,
    /// Channel of the subscription.
    pub channel: &'a C,
    /// Last offset that was sent or reported as missing.
    pub cursor: u64,
    /// Whether the subscription is allowed regardless of the client's other permissions.
    pub granted: bool,
}
