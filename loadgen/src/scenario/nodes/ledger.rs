//! Record of the messages of one subscription, and of the gaps that were reported.

use std::ops::Range;

use super::channel::NodesChannel;

/// How a message arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MessageArrival {
    InOrder,
    /// The message arrived before all messages of this range, which are missing.
    Early(Range<u32>),
    /// The message arrived for the first time, but after a later one.
    Misordered,
    /// The message arrived again.
    Duplicated,
    /// The message arrived again, after a gap without a range. Such a gap may be followed by the whole history.
    Repeated,
}

/// Gap that was reported to a subscription.
#[derive(Clone, Copy, Debug)]
struct ReportedGap {
    /// First and last missing offset, if the gap has a range.
    offsets: Option<(u64, u64)>,
    /// Number of the message that was expected when the gap arrived.
    expected: u32,
    /// Number of the first message after the gap. `None` if no message has arrived since.
    next: Option<u32>,
}

/// The messages that have arrived, by their numbers, and the gaps.
#[derive(Debug, Default)]
pub(super) struct SubscriptionLedger {
    /// One bit per message.
    received: Vec<u64>,
    /// Number after the highest one received.
    expected: u32,
    gaps: Vec<ReportedGap>,
}

impl SubscriptionLedger {
    pub(super) fn take(&mut self, number: u32) -> MessageArrival {
        let is_open_gap = self.gaps.last().is_some_and(|gap| gap.offsets.is_none());
        if let Some(gap) = self.gaps.last_mut() {
            gap.next.get_or_insert(number);
        }
        if self.has(number) {
            return if is_open_gap { MessageArrival::Repeated } else { MessageArrival::Duplicated };
        }
        let (word, bit) = position(number);
        if self.received.len() <= word {
            self.received.resize(word + 1, 0);
        }
        self.received[word] |= bit;
        if number < self.expected {
            return MessageArrival::Misordered;
        }
        let missing = self.expected..number;
        self.expected = number + 1;
        if missing.is_empty() { MessageArrival::InOrder } else { MessageArrival::Early(missing) }
    }

    pub(super) fn gap(&mut self, offsets: Option<(u64, u64)>) {
        self.gaps.push(ReportedGap { offsets, expected: self.expected, next: None });
    }

    pub(super) fn has(&self, number: u32) -> bool {
        let (word, bit) = position(number);
        self.received.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// Returns whether a gap covers this message.
    pub(super) fn is_covered(&self, number: u32, offset: u64) -> bool {
        self.gaps.iter().any(|gap| match gap.offsets {
            Some((from, to)) => (from..=to).contains(&offset),
            None => number >= gap.expected && gap.next.is_none_or(|next| number < next),
        })
    }

    /// Returns the messages of this range that are in the channel, have not arrived, and are not covered by a gap.
    pub(super) fn lost<'a>(
        &'a self,
        range: Range<u32>,
        channel: &'a NodesChannel,
    ) -> impl Iterator<Item = u32> + 'a {
        range.filter(|number| {
            let offset = channel.offset(*number);
            offset.is_some_and(|offset| !self.has(*number) && !self.is_covered(*number, offset))
        })
    }

    /// Returns the number of messages of the channel that have not arrived and are covered by a gap.
    pub(super) fn covered(&self, channel: &NodesChannel) -> u64 {
        if self.gaps.is_empty() {
            return 0;
        }
        let is_covered = |number: &u32| {
            let offset = channel.offset(*number);
            offset.is_some_and(|offset| !self.has(*number) && self.is_covered(*number, offset))
        };
        channel.numbers().filter(is_covered).count() as u64
    }
}

/// Returns the index of a message's word, and its bit.
fn position(number: u32) -> (usize, u64) {
    (number as usize / 64, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use MessageArrival::{Duplicated, Early, InOrder, Misordered, Repeated};

    use super::*;

    /// Returns a channel in which the message with number n has the offset 100 + n.
    fn channel(messages: u32) -> NodesChannel {
        let channel = NodesChannel::new("news".to_owned());
        channel.plan(crate::scenario::channel::Schedule::new(tokio::time::Instant::now(), messages, 1.0, 32));
        (0..messages).for_each(|number| assert!(channel.note_offset(number, 100 + u64::from(number))));
        channel
    }

    #[test]
    fn arrivals_are_classified() {
        let mut ledger = SubscriptionLedger::default();
        let arrivals = [0, 1, 5, 3, 3, 6].map(|number| ledger.take(number));
        assert_eq!(arrivals, [InOrder, InOrder, Early(2..5), Misordered, Duplicated, InOrder]);
        assert_eq!(ledger.lost(0..8, &channel(7)).collect::<Vec<_>>(), [2, 4]);
    }

    #[test]
    fn gaps_cover_their_offsets() {
        let channel = channel(10);
        let mut ledger = SubscriptionLedger::default();
        assert_eq!(ledger.take(0), InOrder);
        ledger.gap(Some((101, 103)));
        assert_eq!(ledger.take(5), Early(1..5));
        assert_eq!(ledger.lost(0..6, &channel).collect::<Vec<_>>(), [4]);
        assert_eq!(ledger.covered(&channel), 3);
    }

    #[test]
    fn gaps_without_a_range_cover_everything_up_to_the_next_message() {
        let channel = channel(10);
        let mut ledger = SubscriptionLedger::default();
        assert_eq!(ledger.take(2), Early(0..2));
        ledger.gap(None);
        assert_eq!(ledger.lost(3..10, &channel).count(), 0, "no message has followed yet");
        assert_eq!((ledger.take(2), ledger.take(4)), (Repeated, Early(3..4)));
        let lost: Vec<_> = ledger.lost(0..10, &channel).collect();
        assert_eq!(lost, [0, 1, 3, 5, 6, 7, 8, 9], "the history began with a message before the gap");
    }
}
