//! Checks of gaps: what they cover, and when they are allowed.

use super::{Coverage, OutboxPosition, SentContent, SentEntry, ServerWorld, WireFrame};
use crate::session::outbox::Turn;

impl ServerWorld {
    /// Checks and records a gap that a turn has produced.
    pub(super) fn gap(
        &mut self,
        turn: Turn,
        subscription: usize,
        before: OutboxPosition,
        seq: u64,
        range: Option<(u64, u64)>,
        coverage: &mut Coverage,
    ) -> WireFrame {
        let it = &mut self.subscriptions[subscription];
        if seq > before.seq {
            assert_eq!((seq, it.live), (before.seq + 1, true));
            match range {
                None if it.gap && !it.gap_sent => it.gap_sent = true,
                None => {
                    assert!(
                        self.gaps_allowed && self.logs.has_patterns(),
                        "the gap covers messages sent by others"
                    );
                    it.gap_sent = true;
                    it.gap_to = self.logs.bounds(it.log).last;
                    coverage.record("gap for messages sent by others");
                }
                Some(range) => {
                    assert_eq!(range, (it.cursor + 1, self.logs.bounds(it.log).first - 1));
                    it.cursor = range.1;
                    let log = it.log;
                    self.covered_by_gap
                        .extend((range.0..=range.1).map(|offset| self.logs.message(log, offset)));
                    coverage.record("cursor fell off the log");
                }
            }
            let it = &self.subscriptions[subscription];
            self.sent.push(SentEntry { subscription, what: SentContent::Gap { range, to: it.cursor } });
        } else if seq <= before.dropped {
            assert!(it.live, "no gap for an ended subscription");
            assert_eq!(turn.from, 1);
            assert!(it.gap_sent || range.is_some(), "the earlier gap had a known range: {range:?}");
            assert!(!it.gap || range.is_none(), "the earlier gap had an unknown length: {range:?}");
            coverage.record("pending gap");
        } else {
            self.gap_again(subscription, before.sent, seq, range, coverage);
        }
        let sent = &self.sent[usize::try_from(seq).expect("small") - 1];
        assert_eq!(sent.subscription, subscription, "seq {seq} keeps its subscription");
        let to = sent.last_offset();
        if let Some(range) = range {
            assert!(
                range.0 <= range.1 && range.1 == to,
                "{range:?} stands for seq {seq}, which was {sent:?}"
            );
        }
        let it = &self.subscriptions[subscription];
        let to = if range.is_none() { to.max(it.gap_to) } else { to };
        WireFrame::Gap { seq, subscription, range, to, live: it.live }
    }

    /// Checks a gap that replaces entries sent with the seqs after `sent`.
    fn gap_again(
        &self,
        subscription: usize,
        sent: u64,
        seq: u64,
        range: Option<(u64, u64)>,
        coverage: &mut Coverage,
    ) {
        let [sent, seq] = [sent, seq].map(|it| usize::try_from(it).expect("small"));
        let replaced = &self.sent[sent..seq];
        if let [SentEntry { what: SentContent::Gap { range: first, .. }, .. }] = replaced {
            assert_eq!(range, *first, "a resent gap is unchanged");
            coverage.record("gap resent");
            return;
        }
        let first = self.logs.bounds(self.subscriptions[subscription].log).first;
        let offsets: Vec<u64> = replaced.iter().map(SentEntry::last_offset).collect();
        let (from, to) = range.expect("the range is known");
        assert!(
            replaced.iter().all(|it| it.subscription == subscription),
            "all entries belong to this subscription"
        );
        assert!(
            replaced.iter().all(|it| matches!(it.what, SentContent::Message(_))),
            "all entries are messages"
        );
        assert_eq!(offsets, (from..=to).collect::<Vec<_>>());
        if self.at_most_once {
            coverage.record("lost answer became a gap");
            return;
        }
        assert!(to < first, "the log has lost them all");
        coverage.record("message to be resent was trimmed");
    }
}
