//! Tracks which subscribers have not yet received a message. Does no I/O and reads no clock.

use encke_core::Timestamp;

/// Delivery progress of one message, in all logs that contain it.
#[derive(Debug, Default)]
pub(super) struct Progress {
    audiences: Vec<Audience>,
    /// Number of awaited subscribers in all logs.
    awaited: usize,
    /// Number of logs whose absent subscribers have not been excluded yet.
    unchecked_logs: usize,
    /// Number of connections that the message was written to, by transport.
    written: Vec<(&'static str, usize)>,
    pub(super) first: Option<Timestamp>,
    pub(super) last: Option<Timestamp>,
    /// When all waiting subscribers had been notified.
    pub(super) fanned_out: Option<Timestamp>,
}

/// Subscribers of one log, by their indices in it.
#[derive(Debug)]
struct Audience {
    log: u64,
    /// Bit set of the awaited subscribers.
    awaited: Box<[u64]>,
    is_fanned_out: bool,
}

impl Progress {
    /// Records that the message is in this log, and awaits all its subscribers. Returns the index of the log
    /// among the message's logs.
    pub(super) fn add_log(&mut self, log: u64, subscribers: impl Iterator<Item = usize>) -> usize {
        let mut awaited = Vec::new();
        for index in subscribers {
            let (word, bit) = (index / 64, 1 << (index % 64));
            if word >= awaited.len() {
                awaited.resize(word + 1, 0);
            }
            awaited[word] |= bit;
            self.awaited += 1;
        }
        self.unchecked_logs += 1;
        self.audiences.push(Audience { log, awaited: awaited.into(), is_fanned_out: false });
        self.audiences.len() - 1
    }

    /// Numbers of the logs that contain the message, in the order of the appends.
    pub(super) fn logs(&self) -> impl Iterator<Item = u64> {
        self.audiences.iter().map(|audience| audience.log)
    }

    /// Records that the waiting subscribers of a log have been notified. Returns whether this is the first
    /// time.
    pub(super) fn fanned_out(&mut self, log_index: usize, now: Timestamp) -> bool {
        let Some(audience) = self.audiences.get_mut(log_index) else { return false };
        let is_news = !std::mem::replace(&mut audience.is_fanned_out, true);
        if is_news {
            self.fanned_out = self.fanned_out.max(Some(now));
        }
        is_news
    }

    /// Indices of the subscribers still awaited in a log, starting at `from`.
    pub(super) fn awaited_from(&self, log_index: usize, from: usize) -> impl Iterator<Item = usize> {
        let words = self.audiences.get(log_index).map_or(&[][..], |audience| &*audience.awaited);
        let words = words.iter().enumerate().skip(from / 64);
        words
            .flat_map(|(word, bits)| {
                (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word * 64 + bit)
            })
            .filter(move |index| *index >= from)
    }

    /// Stops awaiting a subscriber: it has the message, has no connection, or has unsubscribed. Returns
    /// whether it was awaited.
    pub(super) fn exclude(&mut self, log_index: usize, index: usize) -> bool {
        let word =
            self.audiences.get_mut(log_index).and_then(|audience| audience.awaited.get_mut(index / 64));
        let Some(word) = word.filter(|word| **word >> (index % 64) & 1 == 1) else { return false };
        *word &= !(1 << (index % 64));
        self.awaited -= 1;
        true
    }

    /// Records that the absent subscribers of one log have been excluded.
    pub(super) fn absent_excluded(&mut self) {
        self.unchecked_logs -= 1;
    }

    /// Records that the kernel has accepted the whole message for one connection. `subscribers` are the
    /// entries of its session, each a log and an index in it.
    pub(super) fn written(
        &mut self,
        subscribers: impl IntoIterator<Item = (usize, usize)>,
        transport: &'static str,
        now: Timestamp,
    ) {
        let awaited =
            subscribers.into_iter().filter(|(log_index, index)| self.exclude(*log_index, *index)).count();
        // The connection subscribed after the publish, or is already counted.
        if awaited == 0 {
            return;
        }
        self.first.get_or_insert(now);
        self.last = self.last.max(Some(now));
        match self.written.iter_mut().find(|(known, _)| *known == transport) {
            Some((_, count)) => *count += 1,
            None => self.written.push((transport, 1)),
        }
    }

    /// Returns whether all sessions that were attached have the message.
    pub(super) fn is_complete(&self) -> bool {
        self.awaited == 0 && self.unchecked_logs == 0
    }

    /// Number of subscribers that have not received the message.
    pub(super) fn awaited(&self) -> usize {
        self.awaited
    }

    /// Number of connections that the message was written to, by transport.
    pub(super) fn connections(&self) -> &[(&'static str, usize)] {
        &self.written
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use encke_core::Timestamp;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::seeds::with_seeds;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn delivery_completes_when_all_attached_subscribers_have_the_message() {
        let mut progress = Progress::default();
        assert_eq!(progress.add_log(7, [0, 2, 64].into_iter()), 0);
        progress.written([(0, 2)], "websocket", at(3));
        assert!(progress.fanned_out(0, at(4)) && !progress.fanned_out(0, at(5)), "once");
        assert_eq!(progress.awaited_from(0, 0).collect::<Vec<_>>(), [0, 64]);
        assert_eq!(progress.awaited_from(0, 1).collect::<Vec<_>>(), [64]);
        assert_eq!(progress.awaited_from(0, 65).count(), 0);
        assert!(progress.exclude(0, 64) && !progress.exclude(0, 64));
        progress.written([(0, 0)], "sse", at(9));
        assert!(!progress.is_complete(), "absent subscribers are not excluded yet");
        progress.absent_excluded();
        assert!(progress.is_complete());
        assert_eq!(progress.connections(), [("websocket", 1), ("sse", 1)]);
        assert_eq!(
            (progress.first, progress.last, progress.fanned_out),
            (Some(at(3)), Some(at(9)), Some(at(4)))
        );
    }

    #[test]
    fn unknown_and_repeated_subscribers_are_ignored() {
        let mut progress = Progress::default();
        progress.add_log(7, [1].into_iter());
        for subscriber in [(0, 0), (0, 1_000), (1, 1)] {
            progress.written([subscriber], "poll", at(1));
        }
        assert_eq!((progress.awaited(), progress.connections()), (1, &[][..]));
        for _ in 0..2 {
            progress.written([(0, 1)], "poll", at(2));
        }
        assert_eq!((progress.awaited(), progress.connections()), (0, &[("poll", 1)][..]));
    }

    #[test]
    fn subscriber_of_two_logs_counts_once() {
        let mut progress = Progress::default();
        assert_eq!([progress.add_log(7, [0].into_iter()), progress.add_log(8, [3].into_iter())], [0, 1]);
        assert_eq!(progress.logs().collect::<Vec<_>>(), [7, 8]);
        progress.written([(1, 3), (0, 0)], "websocket", at(1));
        for log_index in [0, 1] {
            progress.fanned_out(log_index, at(2));
            progress.absent_excluded();
        }
        assert!(progress.is_complete());
        assert_eq!(progress.connections(), [("websocket", 1)]);
    }

    /// Compares random audiences with sets.
    #[test]
    fn random_audiences_agree_with_sets() {
        with_seeds(0..50, |seed| {
            let mut random = StdRng::seed_from_u64(seed);
            let mut awaited: BTreeSet<usize> =
                (0..random.random_range(0..300)).filter(|_| random.random()).collect();
            let (mut progress, mut written) = (Progress::default(), 0);
            progress.add_log(1, awaited.iter().copied());
            for _ in 0..600 {
                let index = random.random_range(0..320);
                if random.random() {
                    assert_eq!(progress.exclude(0, index), awaited.remove(&index));
                } else {
                    progress.written([(0, index)], "poll", at(1));
                    written += usize::from(awaited.remove(&index));
                }
                let from = random.random_range(0..320);
                let expected: Vec<_> = awaited.range(from..).copied().collect();
                assert_eq!(progress.awaited_from(0, from).collect::<Vec<_>>(), expected);
                assert_eq!(progress.awaited(), awaited.len());
                assert_eq!(progress.connections().iter().map(|(_, count)| count).sum::<usize>(), written);
            }
        });
    }
}
