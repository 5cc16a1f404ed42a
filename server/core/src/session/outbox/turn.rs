//! What an outbox and its owner exchange.

use super::notices::WhyEnded;

/// Identifies a subscription of one outbox while it exists. Reused afterwards: a stale slot may mean another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub(super) u32);

/// What a full ring does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Nothing new is sent until the client acknowledges something.
    Stop,
    /// The oldest entry is evicted: for transports on which a client cannot acknowledge.
    Wrap,
}

/// The subscription to serve next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The subscription.
    pub slot: Slot,
    /// The first message it needs from its channel's log. Offsets count from 1.
    pub from: u64,
}

/// The messages that a channel's log holds: `first..=last`; none when `first` is `last + 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The oldest message still there.
    pub first: u64,
    /// The newest message ever published.
    pub last: u64,
}

/// What to send now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// `count` messages, with offsets from `offset` and seqs from `seq`, each one more than the one before.
    Messages {
        /// The seq of the first.
        seq: u64,
        /// The offset of the first.
        offset: u64,
        /// How many, at least one.
        count: usize,
        /// The subscription has reached the end of its log. It gets no turn until [`super::Outbox::mark_ready`].
        caught_up: bool,
    },
    /// Messages that the client should have had and no longer can.
    Gap {
        /// The gap's seq.
        seq: u64,
        /// The first and the last of them, if known.
        range: Option<(u64, u64)>,
    },
    /// The subscription has begun, which the client has not asked for: what comes next on it follows this offset. It has no seq.
    Begun {
        /// The last message before those that it brings.
        offset: u64,
    },
    /// It has ended, and the client has not asked for that. It has no seq.
    Ended(WhyEnded),
    /// Nothing: another subscription had sent what came next. There is more.
    PassedOver,
    /// Nothing: another subscription has to come to the same message first. It has a turn before this one has its next.
    Waits,
    /// Nothing: the subscription has reached the end of its log. It gets no turn until [`super::Outbox::mark_ready`].
    CaughtUp,
}

/// A subscription as its owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionView<'a, C> {
    /// Its slot.
    pub slot: Slot,
    /// Its channel.
    pub channel: &'a C,
    /// The last offset that was sent, or reported as missing.
    pub cursor: u64,
    /// The client has it whatever else it may follow.
    pub granted: bool,
}
