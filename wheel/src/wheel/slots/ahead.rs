//! Looking ahead: which slot comes next, and what will come out of a slot.

use super::{BITS, LEVEL_WORDS, LEVELS, Place, Slots, bit_of};
use crate::Tick;
use crate::wheel::memory::prefetch;

impl Slots {
    /// The next slot of the first level in the same word as that where the wheel stands, which is empty and does not begin a turn:
    /// nothing comes before it. Notes that, and when it begins.
    #[inline(always)]
    pub(in crate::wheel) fn look_near(&mut self, here: Place) -> bool {
        let (at, bit) = (here.number() / BITS, here.number() % BITS);
        let bits = self.occupied[at] & !(1 << bit);
        self.occupied[at] = bits;
        let ahead = bits & (u64::MAX << bit);
        if ahead == 0 {
            return false;
        }
        self.quiet_until = Tick(self.now.0 - bit as u64 + u64::from(ahead.trailing_zeros()));
        true
    }

    /// Notes when the wheel comes to the next slot that is not empty. Says which that is.
    pub(in crate::wheel) fn look_ahead(&mut self) -> Option<Place> {
        loop {
            let event = self.next_event();
            if let Some((_, place)) = event
                && self.line(place).is_empty()
            {
                self.occupied[place.number() / BITS] &= !bit_of(place);
                continue;
            }
            self.quiet_until = event.map_or(Tick::MAX, |(tick, _)| tick);
            return event.map(|(_, place)| place);
        }
    }

    /// The first slot that is not empty which the wheel comes to, and when. It is the slot where the wheel stands until that was
    /// found to be empty.
    #[inline(never)]
    pub(in crate::wheel) fn next_event(&self) -> Option<(Tick, Place)> {
        self.event(|_| true)
    }

    /// The same, of slots that have something. Where the wheel stands, that need not be noted.
    #[cold]
    #[inline(never)]
    pub(in crate::wheel) fn next_event_of_something(&self) -> Option<(Tick, Place)> {
        self.event(|place| !self.line(place).is_empty())
    }

    #[inline(always)]
    fn event(&self, current_counts: impl Fn(Place) -> bool) -> Option<(Tick, Place)> {
        let mut earliest: Option<(Tick, Place)> = None;
        for level in (0..).take(LEVELS) {
            let current = Place::current(self.now, level);
            let Some(slot) = self.next_occupied(level, current.slot(), current_counts(current)) else {
                continue;
            };
            let place = Place::new(level, slot);
            let Some(tick) = place.start(self.now) else { continue };
            if earliest.is_none_or(|(earliest, _)| tick < earliest) {
                earliest = Some((tick, place));
            }
            // A slot of a level above begins where a turn of this one does: neither here nor before this slot.
            let same_turn = current.slot() > 0 && slot > current.slot();
            if same_turn || tick == self.now {
                break;
            }
        }
        earliest
    }

    /// The first slot of `level` that is not empty, going once around from `slot`, which is the nearest if it counts.
    #[inline(always)]
    fn next_occupied(&self, level: u8, slot: u8, counts: bool) -> Option<u8> {
        let occupied = &self.occupied[usize::from(level) * LEVEL_WORDS..][..LEVEL_WORDS];
        let (word, bit) = (usize::from(slot) / BITS, usize::from(slot) % BITS);
        let ahead = u64::MAX << bit;
        let nearest = occupied[word] & ahead & !(u64::from(!counts) << bit);
        if nearest != 0 {
            return Some(slot_of(word, nearest));
        }
        for step in 1..LEVEL_WORDS {
            let word = (word + step) % LEVEL_WORDS;
            if occupied[word] != 0 {
                return Some(slot_of(word, occupied[word]));
            }
        }
        // Once around: the slots before it.
        let farthest = occupied[word] & !ahead;
        (farthest != 0).then(|| slot_of(word, farthest))
    }

    /// The entries that a slot begins with, and after them those of its second line. Fetches the third.
    pub(in crate::wheel) fn first_few(&self, place: Place) -> impl Iterator<Item = u32> {
        self.line(place).entries().iter().copied().chain(self.next_few(place))
    }

    /// The entries of a slot's second line. Fetches the third.
    pub(in crate::wheel) fn next_few(&self, place: Place) -> impl Iterator<Item = u32> {
        let second = self.spilled_line(self.line(place).next());
        if let Some(third) = second.and_then(|second| self.spilled_line(second.next())) {
            prefetch(third);
        }
        second.into_iter().flat_map(|line| line.entries()).copied()
    }
}

/// The slot of the first of these bits, of which there is one.
fn slot_of(word: usize, bits: u64) -> u8 {
    let slot = word * BITS + bits.trailing_zeros() as usize;
    u8::try_from(slot).expect("a level has 256 slots")
}
