use super::{BITS, LEVELS, SlotId, Slots, WORDS_PER_LEVEL, bit_of};
use crate::Tick;
use crate::wheel::memory::prefetch;

impl Slots {
    /// Finds the next occupied slot of level 0 in the same bitmap word as the current slot, and sets
    /// `quiet_until` to its tick. Returns `false` if no slot is found. The current slot must be empty and
    /// must not begin a revolution. This guarantees that nothing happens before the slot found.
    #[inline(always)]
    pub(in crate::wheel) fn find_next_nearby(&mut self, here: SlotId) -> bool {
        let (at, bit) = (here.index() / BITS, here.index() % BITS);
        let bits = self.occupied[at] & !(1 << bit);
        self.occupied[at] = bits;
        let ahead = bits & (u64::MAX << bit);
        if ahead == 0 {
            return false;
        }
        self.quiet_until = Tick(self.now.0 - bit as u64 + u64::from(ahead.trailing_zeros()));
        true
    }

    /// Finds the next occupied slot and sets `quiet_until` to its first tick.
    pub(in crate::wheel) fn find_next(&mut self) -> Option<SlotId> {
        loop {
            let event = self.next_event();
            if let Some((_, slot)) = event
                && self.line(slot).is_empty()
            {
                self.occupied[slot.index() / BITS] &= !bit_of(slot);
                continue;
            }
            self.quiet_until = event.map_or(Tick::MAX, |(tick, _)| tick);
            return event.map(|(_, slot)| slot);
        }
    }

    /// Returns the first occupied slot that the wheel reaches, and its tick. This is the current slot until
    /// its bit is cleared, even if it is already empty.
    #[inline(never)]
    pub(in crate::wheel) fn next_event(&self) -> Option<(Tick, SlotId)> {
        self.event(|_| true)
    }

    /// Like [`next_event`](Self::next_event), but skips the current slot if it is empty and its bit is still
    /// set.
    #[cold]
    #[inline(never)]
    pub(in crate::wheel) fn next_nonempty_event(&self) -> Option<(Tick, SlotId)> {
        self.event(|slot| !self.line(slot).is_empty())
    }

    #[inline(always)]
    fn event(&self, current_counts: impl Fn(SlotId) -> bool) -> Option<(Tick, SlotId)> {
        let mut earliest: Option<(Tick, SlotId)> = None;
        for level in (0..).take(LEVELS) {
            let current = SlotId::current(self.now, level);
            let Some(position) = self.next_occupied(level, current.position(), current_counts(current))
            else {
                continue;
            };
            let slot = SlotId::new(level, position);
            let Some(tick) = slot.start(self.now) else { continue };
            if earliest.is_none_or(|(earliest, _)| tick < earliest) {
                earliest = Some((tick, slot));
            }
            // A slot of a higher level only begins where a revolution of this level begins. In both cases
            // below, the next such slot does not begin before this one.
            let same_turn = current.position() > 0 && position > current.position();
            if same_turn || tick == self.now {
                break;
            }
        }
        earliest
    }

    /// Returns the first occupied slot of `level`, searching one revolution that starts at `slot`. `slot`
    /// itself is included if `counts` is true.
    #[inline(always)]
    fn next_occupied(&self, level: u8, slot: u8, counts: bool) -> Option<u8> {
        let occupied = &self.occupied[usize::from(level) * WORDS_PER_LEVEL..][..WORDS_PER_LEVEL];
        let (word, bit) = (usize::from(slot) / BITS, usize::from(slot) % BITS);
        let ahead = u64::MAX << bit;
        let nearest = occupied[word] & ahead & !(u64::from(!counts) << bit);
        if nearest != 0 {
            return Some(slot_of(word, nearest));
        }
        for step in 1..WORDS_PER_LEVEL {
            let word = (word + step) % WORDS_PER_LEVEL;
            if occupied[word] != 0 {
                return Some(slot_of(word, occupied[word]));
            }
        }
        // The search has wrapped around. Only the slots before the starting slot are left.
        let farthest = occupied[word] & !ahead;
        (farthest != 0).then(|| slot_of(word, farthest))
    }

    /// Returns the entries of the first and second line of a slot. Prefetches the third line.
    pub(in crate::wheel) fn first_two_lines(&self, slot: SlotId) -> impl Iterator<Item = u32> {
        self.line(slot).entries().iter().copied().chain(self.second_line_entries(slot))
    }

    pub(in crate::wheel) fn second_line_entries(&self, slot: SlotId) -> impl Iterator<Item = u32> {
        let second = self.spilled_line(self.line(slot).next());
        if let Some(third) = second.and_then(|second| self.spilled_line(second.next())) {
            prefetch(third);
        }
        second.into_iter().flat_map(|line| line.entries()).copied()
    }
}

/// Returns the slot of the lowest set bit. `bits` must not be 0.
fn slot_of(word: usize, bits: u64) -> u8 {
    let slot = word * BITS + bits.trailing_zeros() as usize;
    u8::try_from(slot).expect("a level has 256 slots")
}
