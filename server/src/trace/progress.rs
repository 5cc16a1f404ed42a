//! Who is still to get a message. Pure: times are arguments.

use encke_core::Timestamp;

/// Of one message, in all logs that have it.
#[derive(Debug, Default)]
pub(super) struct Progress {
    audiences: Vec<Audience>,
    /// In all of them.
    awaited: usize,
    /// How many of them were not looked through yet.
    unseen: usize,
    /// By transport.
    written: Vec<(&'static str, usize)>,
    pub(super) first: Option<Timestamp>,
    pub(super) last: Option<Timestamp>,
    /// All were woken that waited.
    pub(super) fanned_out: Option<Timestamp>,
}

/// Those that follow one log, by their indices there.
#[derive(Debug)]
struct Audience {
    log: u64,
    /// A bit for each. It is set while that one is awaited.
    awaited: Box<[u64]>,
    is_fanned_out: bool,
}

impl Progress {
    /// The message is in this log. All that follow it are awaited. Returns which of its logs that is.
    pub(super) fn begins_in(&mut self, log: u64, followers: impl Iterator<Item = usize>) -> usize {
        let mut awaited = Vec::new();
        for index in followers {
            let (word, bit) = (index / 64, 1 << (index % 64));
            if word >= awaited.len() {
                awaited.resize(word + 1, 0);
            }
            awaited[word] |= bit;
            self.awaited += 1;
        }
        self.unseen += 1;
        self.audiences.push(Audience { log, awaited: awaited.into(), is_fanned_out: false });
        self.audiences.len() - 1
    }

    /// In which logs it is, in the order in which it got there.
    pub(super) fn logs(&self) -> impl Iterator<Item = u64> {
        self.audiences.iter().map(|audience| audience.log)
    }

    /// Those that wait for this log's messages were woken. Returns whether that is news.
    pub(super) fn fanned_out(&mut self, part: usize, now: Timestamp) -> bool {
        let Some(audience) = self.audiences.get_mut(part) else { return false };
        let is_news = !std::mem::replace(&mut audience.is_fanned_out, true);
        if is_news {
            self.fanned_out = self.fanned_out.max(Some(now));
        }
        is_news
    }

    /// Those that are still awaited in this log, from this index on.
    pub(super) fn awaited_from(&self, part: usize, from: usize) -> impl Iterator<Item = usize> {
        let words = self.audiences.get(part).map_or(&[][..], |audience| &*audience.awaited);
        let words = words.iter().enumerate().skip(from / 64);
        words
            .flat_map(|(word, bits)| {
                (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word * 64 + bit)
            })
            .filter(move |index| *index >= from)
    }

    /// This one is not awaited: it has no connection, or follows the log no more. Returns whether it was.
    pub(super) fn is_gone(&mut self, part: usize, index: usize) -> bool {
        let word = self.audiences.get_mut(part).and_then(|audience| audience.awaited.get_mut(index / 64));
        let Some(word) = word.filter(|word| **word >> (index % 64) & 1 == 1) else { return false };
        *word &= !(1 << (index % 64));
        self.awaited -= 1;
        true
    }

    /// The absent of this log are no longer awaited.
    pub(super) fn was_looked_through(&mut self) {
        self.unseen -= 1;
    }

    /// The kernel has the whole message for one connection, which is that of these followers.
    pub(super) fn written(
        &mut self,
        followers: impl IntoIterator<Item = (usize, usize)>,
        transport: &'static str,
        now: Timestamp,
    ) {
        let awaited = followers.into_iter().filter(|(part, index)| self.is_gone(*part, *index)).count();
        // One that has come since then is nobody's.
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

    /// Whether all that were attached have it.
    pub(super) fn is_complete(&self) -> bool {
        self.awaited == 0 && self.unseen == 0
    }

    /// How many have not got it.
    pub(super) fn awaited(&self) -> usize {
        self.awaited
    }

    /// How many connections it was written to, by transport.
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
    fn it_is_complete_when_all_that_are_there_have_it() {
        let mut progress = Progress::default();
        assert_eq!(progress.begins_in(7, [0, 2, 64].into_iter()), 0);
        progress.written([(0, 2)], "websocket", at(3));
        assert!(progress.fanned_out(0, at(4)) && !progress.fanned_out(0, at(5)), "once");
        assert_eq!(progress.awaited_from(0, 0).collect::<Vec<_>>(), [0, 64]);
        assert_eq!(progress.awaited_from(0, 1).collect::<Vec<_>>(), [64]);
        assert_eq!(progress.awaited_from(0, 65).count(), 0);
        assert!(progress.is_gone(0, 64) && !progress.is_gone(0, 64));
        progress.written([(0, 0)], "sse", at(9));
        assert!(!progress.is_complete(), "it was not looked who is absent");
        progress.was_looked_through();
        assert!(progress.is_complete());
        assert_eq!(progress.connections(), [("websocket", 1), ("sse", 1)]);
        assert_eq!(
            (progress.first, progress.last, progress.fanned_out),
            (Some(at(3)), Some(at(9)), Some(at(4)))
        );
    }

    #[test]
    fn one_that_was_not_there_or_has_it_already_changes_nothing() {
        let mut progress = Progress::default();
        progress.begins_in(7, [1].into_iter());
        for follower in [(0, 0), (0, 1_000), (1, 1)] {
            progress.written([follower], "poll", at(1));
        }
        assert_eq!((progress.awaited(), progress.connections()), (1, &[][..]));
        for _ in 0..2 {
            progress.written([(0, 1)], "poll", at(2));
        }
        assert_eq!((progress.awaited(), progress.connections()), (0, &[("poll", 1)][..]));
    }

    #[test]
    fn whoever_follows_two_of_its_logs_is_one() {
        let mut progress = Progress::default();
        assert_eq!([progress.begins_in(7, [0].into_iter()), progress.begins_in(8, [3].into_iter())], [0, 1]);
        assert_eq!(progress.logs().collect::<Vec<_>>(), [7, 8]);
        progress.written([(1, 3), (0, 0)], "websocket", at(1));
        for part in [0, 1] {
            progress.fanned_out(part, at(2));
            progress.was_looked_through();
        }
        assert!(progress.is_complete());
        assert_eq!(progress.connections(), [("websocket", 1)]);
    }

    /// Against sets.
    #[test]
    fn random_audiences() {
        with_seeds(0..50, |seed| {
            let mut random = StdRng::seed_from_u64(seed);
            let mut awaited: BTreeSet<usize> =
                (0..random.random_range(0..300)).filter(|_| random.random()).collect();
            let (mut progress, mut written) = (Progress::default(), 0);
            progress.begins_in(1, awaited.iter().copied());
            for _ in 0..600 {
                let index = random.random_range(0..320);
                if random.random() {
                    assert_eq!(progress.is_gone(0, index), awaited.remove(&index));
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
