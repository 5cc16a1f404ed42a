//! A session as it is written down, for another process to go on with.
//!
//! Fields have numbers, which are never used for anything else again. A reader skips those that it does not know; a field that comes
//! later is an `Option`, since older records do not have it. Times are what remains, or what has passed: instants of one process mean
//! nothing to the next. What each new connection sets anew is left out.
//!
//! Records come from a file, so they may say anything: what makes no sense is refused ([`BadRecord`]), and nothing is allocated for what a
//! record only claims to have.

use minicbor::{Decode, Encode};

/// A session without a connection.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SessionRecord {
    /// How the last connection was, by number.
    #[n(0)]
    pub carrier: u8,
    /// How long ago it began.
    #[n(1)]
    pub age_ns: u64,
    /// How long ago its client was last heard.
    #[n(2)]
    pub silence_ns: u64,
    /// How long ago it lost its connection, or its last poll was answered.
    #[n(3)]
    pub left_ns: u64,
    /// How long its client has to come back.
    #[n(4)]
    pub reconnect_ns: u64,
    /// What remains of its idle time, if that runs.
    #[n(5)]
    pub idle_ns: Option<u64>,
    /// What remains of its lifetime, if that is limited: for processes before the lifetime followed from the age.
    #[n(6)]
    pub lifetime_ns: Option<u64>,
    /// What the client's next sign of life acknowledges.
    #[n(7)]
    pub unconfirmed: u64,
    /// Its lifecycle events so far.
    #[n(8)]
    pub events: u32,
    /// What it was sent, and is to be sent.
    #[n(9)]
    pub outbox: OutboxRecord,
}

/// What a session was sent, and is to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct OutboxRecord {
    /// The last seq that has left the ring.
    #[n(0)]
    pub dropped: u64,
    /// What was sent under the seqs after that.
    #[n(1)]
    pub ring: Vec<RingRun>,
    /// The last seq sent on the last connection.
    #[n(2)]
    pub sent: u64,
    /// The client has everything up to here.
    #[n(3)]
    pub acknowledged: u64,
    /// By slot.
    #[n(4)]
    pub subscriptions: Vec<Option<SubscriptionRecord>>,
    /// The slots of subscriptions whose logs may have something new, in the order of their turns.
    #[n(5)]
    pub ready: Vec<u32>,
    /// Two subscriptions have overlapped.
    #[n(6)]
    pub overlaps: bool,
    /// The last seq that has left the ring and was of a subscription that has ended.
    #[n(7)]
    pub forgotten: u64,
}

/// One gap, or messages of one subscription that follow each other in seq and in offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct RingRun {
    /// The slot of the subscription.
    #[n(0)]
    pub slot: u32,
    /// The first offset.
    #[n(1)]
    pub offset: u64,
    /// How many messages; 1 for a gap.
    #[n(2)]
    pub count: u64,
    /// How many messages the gap leaves out, [`u32::MAX`] for one of unknown length; 0 for messages.
    #[n(3)]
    pub span: u32,
}

/// A position in a log.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SubscriptionRecord {
    /// The number of the log.
    #[n(0)]
    pub log: u64,
    /// The cursor at the start.
    #[n(1)]
    pub start: u64,
    /// The last offset that was sent, or reported as missing.
    #[n(2)]
    pub cursor: u64,
    /// Seq and offset of the last entry that has left the ring.
    #[n(3)]
    pub evicted: Option<(u64, u64)>,
    /// A gap of unknown length is to be reported before anything else.
    #[n(4)]
    pub gap: bool,
    /// A gap of unknown length has left the ring.
    #[n(5)]
    pub evicted_unknown_gap: bool,
    /// Not unsubscribed.
    #[n(6)]
    pub live: bool,
    /// What the last gap left out.
    #[n(7)]
    pub missed: Option<(u64, u64)>,
    /// What others that overlap with it had sent when it began.
    #[n(8)]
    pub sent_before: Option<Vec<SentBefore>>,
    /// Another has sent a message of its log.
    #[n(9)]
    pub sent_by_others: bool,
    /// What the client is told of it, or was.
    #[n(10)]
    pub notice: Option<NoticeRecord>,
}

/// What a client is told of a subscription that it has not asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct NoticeRecord {
    /// That it has ended, rather than begun.
    #[n(0)]
    pub is_end: bool,
    /// Whatever else the client may follow.
    #[n(1)]
    pub granted: bool,
    /// The last seq there was when it was told; nothing: it is to be told.
    #[n(2)]
    pub told_after: Option<u64>,
    /// It has ended because the client may not follow the channel any more.
    #[cbor(n(3), default)]
    pub is_forbidden: bool,
}

/// A stretch of a log that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct SentBefore {
    /// The number of the log.
    #[n(0)]
    pub log: u64,
    /// After this message.
    #[n(1)]
    pub after: u64,
    /// Up to this one.
    #[n(2)]
    pub up_to: u64,
    /// But for these.
    #[n(3)]
    pub missed: Option<(u64, u64)>,
}

/// A record contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRecord(pub(super) &'static str);

impl std::fmt::Display for BadRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for BadRecord {}
