//! What gaps may say, and instead of what.

use super::{Coverage, Frame, Position, Sent, What, World};
use crate::session::outbox::Turn;

impl World {
    /// A turn has brought a gap.
    pub(super) fn gap(
        &mut self,
        turn: Turn,
        subscription: usize,
        before: Position,
        seq: u64,
        range: Option<(u64, u64)>,
        coverage: &mut Coverage,
    ) -> Frame {
        let it = &mut self.subscriptions[subscription];
        if seq > before.seq {
            assert_eq!((seq, it.live), (before.seq + 1, true));
            match range {
                None if it.gap && !it.gap_sent => it.gap_sent = true,
                None => {
                    assert!(self.gaps_allowed && self.logs.has_patterns(), "for what others sent");
                    it.gap_sent = true;
                    it.told_to = self.logs.bounds(it.log).last;
                    coverage.met("gap for what others sent");
                }
                Some(range) => {
                    assert_eq!(range, (it.cursor + 1, self.logs.bounds(it.log).first - 1));
                    it.cursor = range.1;
                    let log = it.log;
                    self.told.extend((range.0..=range.1).map(|offset| self.logs.message(log, offset)));
                    coverage.met("cursor fell off the log");
                }
            }
            let it = &self.subscriptions[subscription];
            self.sent.push(Sent { subscription, what: What::Gap { range, to: it.cursor } });
        } else if seq <= before.dropped {
            assert!(it.live, "no gap for one that has unsubscribed");
            assert_eq!(turn.from, 1);
            assert!(it.gap_sent || range.is_some(), "no gap of unknown length was told: {range:?}");
            assert!(!it.gap || range.is_none(), "a gap of unknown length was told: {range:?}");
            coverage.met("pending gap");
        } else {
            self.gap_again(subscription, before.sent, seq, range, coverage);
        }
        let sent = &self.sent[usize::try_from(seq).expect("small") - 1];
        assert_eq!(sent.subscription, subscription, "seq {seq} stays in its channel");
        let to = sent.last_offset();
        if let Some(range) = range {
            assert!(
                range.0 <= range.1 && range.1 == to,
                "{range:?} stands for seq {seq}, which was {sent:?}"
            );
        }
        let it = &self.subscriptions[subscription];
        let to = if range.is_none() { to.max(it.told_to) } else { to };
        Frame::Gap { seq, subscription, range, to, live: it.live }
    }

    /// Instead of what was sent under the seqs after `sent`.
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
        if let [Sent { what: What::Gap { range: first, .. }, .. }] = replaced {
            assert_eq!(range, *first, "the same seq, the same gap");
            coverage.met("gap resent");
            return;
        }
        let first = self.logs.bounds(self.subscriptions[subscription].log).first;
        let offsets: Vec<u64> = replaced.iter().map(Sent::last_offset).collect();
        let (from, to) = range.expect("it is known what the log has lost");
        assert!(replaced.iter().all(|it| it.subscription == subscription), "no other channel's");
        assert!(replaced.iter().all(|it| matches!(it.what, What::Message(_))), "no other gap");
        assert_eq!(offsets, (from..=to).collect::<Vec<_>>());
        if self.at_most_once {
            coverage.met("swallowed");
            return;
        }
        assert!(to < first, "the log has lost them all");
        coverage.met("message to be resent was trimmed");
    }
}
