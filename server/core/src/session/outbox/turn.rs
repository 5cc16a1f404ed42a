//! What an outbox and its owner say to each other.

/// A subscription of one outbox, while it stands. Used anew after that, so whoever keeps one must bear to be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub(super) u32);

/// What happens to a ring with no room left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Nothing new is sent until something is acknowledged.
    Stop,
    /// The oldest is forgotten: for transports on which a client cannot acknowledge.
    Wrap,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The subscription.
    pub slot: Slot,
    /// The first message it wants from its channel's log. Offsets count from 1.
    pub from: u64,
}

/// What a channel's log holds: the messages `first..=last`; none when `first` is `last + 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The oldest message still there.
    pub first: u64,
    /// The newest message ever published.
    pub last: u64,
}

/// What is to be sent now.
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
        /// The subscription has read all there is. It gets no turn until [`super::Outbox::mark_ready`].
        caught_up: bool,
    },
    /// Messages that the client should have had and no longer can.
    Gap {
        /// The gap's seq.
        seq: u64,
        /// The first and the last of them, if that can be told.
        range: Option<(u64, u64)>,
    },
    /// There is nothing: the subscription has read all there is. It gets no turn until [`super::Outbox::mark_ready`].
    CaughtUp,
}

/// What is to be seen of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionView<'a, C> {
    /// Its slot.
    pub slot: Slot,
    /// Its channel.
    pub channel: &'a C,
    /// The last offset that was sent, or told to be missing.
    pub cursor: u64,
}
