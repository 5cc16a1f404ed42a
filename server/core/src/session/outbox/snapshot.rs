//! Saving an outbox as a record, and restoring it in another process.

use std::num::NonZeroU64;

use super::log_handle::LogHandle;
use super::notice::{EndReason, Notice, SubscriptionChange};
use super::ring::{ReplayRing, RingEntry};
use super::subscription::{Evicted, RareSubscriptionState, Subscription};
use super::{Outbox, SubscriptionSlot};
use crate::session::record::{BadRecord, NoticeRecord, OutboxRecord, RingRun, SubscriptionRecord};

impl<C: LogHandle> Outbox<C> {
    /// Returns the outbox's record.
    #[must_use]
    pub fn snapshot(&self) -> OutboxRecord {
        OutboxRecord {
            dropped: self.ring.dropped(),
            ring: self.runs(),
            sent: self.sent,
            acknowledged: self.acknowledged,
            subscriptions: self.subscriptions_by_slot(),
            ready: self.ready().collect(),
            overlaps: self.overlaps,
            last_orphan_evicted: self.last_orphan_evicted(),
        }
    }

    fn subscriptions_by_slot(&self) -> Vec<Option<SubscriptionRecord>> {
        let used = self.existing().last().map_or(0, |(last, _)| last + 1);
        (0..used).map(|slot| self.get(slot).map(Subscription::snapshot)).collect()
    }

    fn runs(&self) -> Vec<RingRun> {
        let runs = self.ring.runs();
        runs.map(|(_, RingEntry { slot, span, offset }, count)| RingRun { slot, offset, count, span })
            .collect()
    }
}

impl<C> Outbox<C> {
    /// Restores an outbox. The ring holds at most `max_unacked` seqs; if the record has more, the oldest are
    /// evicted. `channel` receives the number of a log, the slot of the subscription, and whether the
    /// subscription is live. It returns the handle of the log, or `None` if there is no such log.
    ///
    /// # Errors
    /// Returns [`BadRecord`] if the record is inconsistent.
    pub fn restore(
        record: &OutboxRecord,
        max_unacked: usize,
        mut channel: impl FnMut(u64, SubscriptionSlot, bool) -> Option<C>,
    ) -> Result<Self, BadRecord> {
        let mut outbox = Self::new(max_unacked);
        let mut reached = Vec::with_capacity(record.subscriptions.len());
        for (slot, it) in (0..).zip(&record.subscriptions) {
            let restored = match it {
                None => None,
                Some(it) => {
                    let channel =
                        channel(it.log, SubscriptionSlot(slot), it.live).ok_or(BadRecord("unknown log"))?;
                    Some(Subscription::restore(it, record.dropped, channel)?)
                }
            };
            reached.push(restored.as_ref().map_or(0, |it| it.evicted.map_or(it.start, |last| last.offset)));
            outbox.set(slot, restored);
        }
        outbox.restore_ring(record, &mut reached)?;
        for slot in 0..outbox.slots() {
            outbox.free_if_unused(slot);
        }
        let last = outbox.seq();
        if record.sent > last || record.acknowledged > record.sent.min(record.dropped) {
            return Err(BadRecord("a seq was acknowledged that was not sent"));
        }
        (outbox.sent, outbox.acknowledged) = (record.sent, record.acknowledged);
        outbox.overlaps = record.overlaps;
        if record.last_orphan_evicted > 0 {
            outbox.rare.get_or_insert_default().last_orphan_evicted = record.last_orphan_evicted;
        }
        for slot in &record.ready {
            let is_new = outbox.get(*slot).is_some_and(|it| it.live && !it.ready);
            if !is_new {
                return Err(BadRecord("a turn without a live subscription"));
            }
            outbox.mark_ready(SubscriptionSlot(*slot));
        }
        outbox.queue_gaps_of_evicted();
        outbox.update_has_notices();
        // All notices sent up to the recorded position are part of that position.
        outbox.requeue_notices_after(u64::MAX);
        Ok(outbox)
    }

    /// Restores the ring. Allocates no memory for entries beyond its capacity.
    fn restore_ring(&mut self, record: &OutboxRecord, reached: &mut [u64]) -> Result<(), BadRecord> {
        let total = record.ring.iter().try_fold(0_u64, |sum, run| sum.checked_add(run.count));
        let total =
            total.filter(|total| total.checked_add(record.dropped).is_some_and(|last| last < u64::MAX));
        let total = total.ok_or(BadRecord("too many seqs"))?;
        let capacity = self.ring.capacity();
        let mut excess = total.saturating_sub(capacity as u64);
        self.ring = ReplayRing::after(record.dropped + excess, capacity);
        let mut seq = record.dropped;
        for run in &record.ring {
            let reached =
                reached.get_mut(run.slot as usize).ok_or(BadRecord("a ring entry without a subscription"))?;
            let it = self.get_mut(run.slot).ok_or(BadRecord("a ring entry without a subscription"))?;
            *reached = it.check_run(run, *reached)?;
            let evicted = excess.min(run.count);
            excess -= evicted;
            if evicted > 0 {
                it.evict(seq + evicted, entry(run, evicted - 1));
            }
            if evicted < run.count {
                self.ring.push(entry(run, evicted), run.count - evicted);
            }
            seq += run.count;
        }
        Ok(())
    }

    /// Queues the gaps for evicted entries after the last seq sent.
    fn queue_gaps_of_evicted(&mut self) {
        if self.sent >= self.ring.dropped() {
            return;
        }
        self.queue_gaps_after(self.sent);
    }
}

fn entry(run: &RingRun, index: u64) -> RingEntry {
    RingEntry { slot: run.slot, span: run.span, offset: run.offset + index }
}

impl<C: LogHandle> Subscription<C> {
    fn snapshot(&self) -> SubscriptionRecord {
        let rare = self.rare.as_deref();
        let sent_before = rare.map(|rare| &rare.sent_before).filter(|sent| !sent.is_empty());
        SubscriptionRecord {
            log: self.channel.log(),
            start: self.start,
            cursor: self.cursor,
            evicted: self.evicted.map(|evicted| (evicted.seq.get(), evicted.offset)),
            gap: self.gap,
            evicted_unknown_gap: self.evicted_unknown_gap,
            live: self.live,
            successor: self.successor(),
            missed: rare.and_then(|rare| rare.missed),
            sent_before: sent_before.cloned(),
            sent_by_others: self.is_sent_by_others(),
            notice: self.notice().map(Notice::record),
        }
    }
}

impl Notice {
    fn record(self) -> NoticeRecord {
        let Self { change, sent_after } = self;
        NoticeRecord {
            is_end: self.is_end(),
            granted: self.is_granted(),
            sent_after,
            is_forbidden: change == SubscriptionChange::Ended(EndReason::Forbidden),
        }
    }

    fn restore(record: NoticeRecord) -> Self {
        let NoticeRecord { is_end, granted, sent_after, is_forbidden } = record;
        let why = if is_forbidden { EndReason::Forbidden } else { EndReason::Removed };
        Self {
            change: if is_end {
                SubscriptionChange::Ended(why)
            } else {
                SubscriptionChange::Begun { granted }
            },
            sent_after,
        }
    }
}

impl<C> Subscription<C> {
    /// Checks a run, and returns the offset that a client with this run has reached. `reached` is the offset
    /// that the client had reached before the run.
    fn check_run(&self, run: &RingRun, reached: u64) -> Result<u64, BadRecord> {
        let last = match run.span {
            0 => run.offset.checked_add(run.count).map(|end| end - 1),
            _ if run.count != 1 => None,
            u32::MAX => Some(run.offset),
            span => run.offset.checked_add(u64::from(span)).map(|end| end - 1),
        };
        let last = last.filter(|last| run.count > 0 && *last <= self.cursor);
        let last = last.ok_or(BadRecord("a ring entry beyond its cursor"))?;
        let is_after = if run.span == u32::MAX { run.offset >= reached } else { run.offset > reached };
        if is_after { Ok(last) } else { Err(BadRecord("a ring entry before the preceding one")) }
    }

    fn restore(record: &SubscriptionRecord, dropped: u64, channel: C) -> Result<Self, BadRecord> {
        let evicted = match record.evicted {
            None => None,
            Some((seq, offset)) => {
                let seq = NonZeroU64::new(seq).filter(|seq| seq.get() <= dropped);
                let first =
                    if record.evicted_unknown_gap { record.start } else { record.start.saturating_add(1) };
                let is_between = (first..=record.cursor).contains(&offset);
                let seq = seq.filter(|_| is_between).ok_or(BadRecord("an evicted entry was not sent"))?;
                Some(Evicted { seq, offset })
            }
        };
        if record.start > record.cursor || record.cursor > MAX_OFFSET {
            return Err(BadRecord("invalid cursor"));
        }
        let mut it = Self::new(channel, record.cursor, record.gap);
        (it.start, it.evicted, it.live) = (record.start, evicted, record.live);
        it.set_successor(record.successor);
        it.evicted_unknown_gap = record.evicted_unknown_gap;
        let rare = RareSubscriptionState {
            missed: record.missed,
            sent_before: record.sent_before.clone().unwrap_or_default(),
            sent_by_others: record.sent_by_others,
            notice: record.notice.map(Notice::restore),
        };
        if rare.notice.is_some_and(|notice| notice.is_end() == record.live) {
            return Err(BadRecord("a notice contradicts its subscription"));
        }
        if rare.missed.is_some()
            || !rare.sent_before.is_empty()
            || rare.sent_by_others
            || rare.notice.is_some()
        {
            it.rare = Some(Box::new(rare));
        }
        Ok(it)
    }
}

/// Highest offset accepted in a record. No log reaches it, and adding to it does not overflow.
pub const MAX_OFFSET: u64 = u64::MAX / 2;
