//! The serialized form of a session, from which another process can continue it.
//!
//! Fields are identified by numbers, which are never reused. Readers skip unknown fields. A field added later
//! must be an `Option`, since older records lack it. Times are durations, remaining or elapsed, because the
//! timestamps of one process mean nothing to another. Fields that every new connection sets are left out.
//!
//! Records are read from a file and may be corrupt. Inconsistent records are rejected ([`BadRecord`]), and no
//! memory is allocated for entries that a record merely claims to have.

use minicbor::{Decode, Encode};

use super::outbox::SubscriptionSlot;

/// A suspended session.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SessionRecord {
    /// Kind and state of the last connection, as a number.
    #[n(0)]
    pub carrier: u8,
    /// Time since the session was opened.
    #[n(1)]
    pub age_ns: u64,
    /// Time since the last activity of the client.
    #[n(2)]
    pub silence_ns: u64,
    /// Time since the connection was lost, or since the last poll was answered.
    #[n(3)]
    pub detached_for_ns: u64,
    /// Remaining time in which the client can reconnect.
    #[n(4)]
    pub reconnect_ns: u64,
    /// Remaining idle time, if it is limited.
    #[n(5)]
    pub idle_ns: Option<u64>,
    /// Remaining lifetime, if it is limited. Written for older versions, which do not derive the lifetime
    /// from the age.
    #[n(6)]
    pub lifetime_ns: Option<u64>,
    /// Seq that the client's next activity acknowledges.
    #[n(7)]
    pub unconfirmed: u64,
    /// Number of lifecycle events so far.
    #[n(8)]
    pub events: u32,
    /// Sent and pending messages.
    #[n(9)]
    pub outbox: OutboxRecord,
}

/// The serialized form of an outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct OutboxRecord {
    /// Last seq that has left the ring.
    #[n(0)]
    pub dropped: u64,
    /// Entries for the seqs after `dropped`.
    #[n(1)]
    pub ring: Vec<RingRun>,
    /// Last seq sent on the last connection.
    #[n(2)]
    pub sent: u64,
    /// Last seq that the client has acknowledged.
    #[n(3)]
    pub acknowledged: u64,
    /// Subscriptions, indexed by slot.
    #[n(4)]
    pub subscriptions: Vec<Option<SubscriptionRecord>>,
    /// Slots of the subscriptions whose logs may have new messages, in the order of their turns.
    #[n(5)]
    pub ready: Vec<u32>,
    /// Whether two subscriptions have ever overlapped.
    #[n(6)]
    pub overlaps: bool,
    /// Last seq to leave the ring that belonged to an ended subscription.
    #[n(7)]
    pub last_orphan_evicted: u64,
}

impl OutboxRecord {
    /// Iterates over the numbers of the logs that subscriptions refer to.
    pub fn logs(&self) -> impl Iterator<Item = u64> {
        self.subscriptions.iter().flatten().map(|it| it.log)
    }

    /// Whether a subscription refers to this log.
    #[must_use]
    pub fn refers_to(&self, log: u64) -> bool {
        self.logs().any(|number| number == log)
    }

    /// Returns the highest offset of a log that was sent or reported as missing.
    #[must_use]
    pub fn position_in(&self, log: u64) -> u64 {
        let subscriptions = self.subscriptions.iter().flatten().filter(|it| it.log == log);
        subscriptions.map(|it| it.cursor).max().unwrap_or_default()
    }

    /// Removes a subscription whose messages the client has acknowledged.
    pub fn forget_if_unused(&mut self, slot: SubscriptionSlot) {
        let SubscriptionSlot(slot) = slot;
        if self.ring.iter().any(|run| run.slot == slot) {
            return;
        }
        if let Some(it) = self.subscriptions.get_mut(slot as usize) {
            *it = None;
            self.ready.retain(|ready| *ready != slot);
        }
    }

    /// Replaces the numbers of the logs by those of another process.
    pub fn renumber_logs(&mut self, number: impl Fn(u64) -> u64) {
        for it in self.subscriptions.iter_mut().flatten() {
            it.log = number(it.log);
            it.sent_before.iter_mut().flatten().for_each(|range| range.log = number(range.log));
        }
    }
}

/// A gap, or messages of one subscription with consecutive seqs and offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct RingRun {
    /// Slot of the subscription.
    #[n(0)]
    pub slot: u32,
    /// First offset.
    #[n(1)]
    pub offset: u64,
    /// Number of messages; 1 for a gap.
    #[n(2)]
    pub count: u64,
    /// Number of messages that a gap covers, [`u32::MAX`] if unknown; 0 for messages.
    #[n(3)]
    pub span: u32,
}

/// A session's position in one log.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SubscriptionRecord {
    /// Number of the log.
    #[n(0)]
    pub log: u64,
    /// Cursor when the subscription began.
    #[n(1)]
    pub start: u64,
    /// Last offset that was sent or reported as missing.
    #[n(2)]
    pub cursor: u64,
    /// Seq and offset of the last entry that has left the ring.
    #[n(3)]
    pub evicted: Option<(u64, u64)>,
    /// Whether a gap of unknown length must be reported before anything else.
    #[n(4)]
    pub gap: bool,
    /// Whether a gap of unknown length has left the ring.
    #[n(5)]
    pub evicted_unknown_gap: bool,
    /// Whether the subscription is active; false after an unsubscribe.
    #[n(6)]
    pub live: bool,
    /// Offsets covered by the last gap.
    #[n(7)]
    pub missed: Option<(u64, u64)>,
    /// Messages that overlapping subscriptions had already sent when this one began.
    #[n(8)]
    pub sent_before: Option<Vec<SentRange>>,
    /// Whether another subscription has sent a message of this log.
    #[n(9)]
    pub sent_by_others: bool,
    /// Notice about this subscription, pending or already sent.
    #[n(10)]
    pub notice: Option<NoticeRecord>,
    /// Slot of the subscription that replaced this one after its log ended.
    #[n(11)]
    pub successor: Option<u32>,
}

/// A notice that a subscription began or ended without the client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct NoticeRecord {
    /// Whether the subscription ended rather than began.
    #[n(0)]
    pub is_end: bool,
    /// Whether the subscription was granted regardless of the client's other permissions.
    #[n(1)]
    pub granted: bool,
    /// Last assigned seq when the notice was sent; `None` if it has not been sent.
    #[n(2)]
    pub sent_after: Option<u64>,
    /// Whether the subscription ended because the client is no longer allowed to subscribe to the channel.
    #[cbor(n(3), default)]
    pub is_forbidden: bool,
}

/// Messages that a subscription has sent: a range of its log, except for messages covered by a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct SentRange {
    /// Number of the log.
    #[n(0)]
    pub log: u64,
    /// Offset before the first message of the range.
    #[n(1)]
    pub after: u64,
    /// Offset of the last message of the range.
    #[n(2)]
    pub up_to: u64,
    /// Offsets within the range that were not sent.
    #[n(3)]
    pub missed: Option<(u64, u64)>,
}

/// Why a record was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadRecord(pub(super) &'static str);
