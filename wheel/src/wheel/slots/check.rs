use super::*;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

impl Slots {
    /// Panics unless everything that must hold does. Returns all entries, and their slots.
    pub(in crate::wheel) fn check(&self) -> Vec<(u32, Place)> {
        let mut used = BTreeSet::new();
        let mut found = Vec::new();
        let mut lens = [0; LEVELS];
        let mut held = [0; PLACES];
        for (number, line) in self.lines.iter().enumerate() {
            let occupied = self.occupied[number / BITS] >> (number % BITS) & 1 == 1;
            if line.is_empty() && !occupied {
                continue;
            }
            let place = Place::numbered(number);
            // Where the wheel stands, that is seen when it goes on.
            assert!(occupied, "{place:?} has something");
            assert!(!line.is_empty() || place.start(self.now) == Some(self.now), "{place:?} has nothing");
            let before = found.len();
            found.extend(line.entries().iter().map(|entry| (*entry, place)));
            self.check_lines(place, line.next(), &mut used, &mut found);
            self.check_lines(place, self.sweep.rest_of(place), &mut used, &mut found);
            lens[usize::from(place.level())] += found.len() - before;
            held[number] = found.len() - before;
        }
        self.check_rings(&held);
        assert_eq!(lens, core::array::from_fn(|level| self.len(level)));
        self.spilled.check(|number| used.contains(&number));
        found
    }

    /// Each slot is shown with what it has, and the hand at the slot of the present tick.
    fn check_rings(&self, expected: &[usize; PLACES]) {
        for (level, expected) in expected.chunks(SLOTS).enumerate() {
            let mut held = [u32::MAX; SLOTS];
            let ring = self.ring(level, &mut held).expect("every level is a ring");
            assert!(held.iter().map(|held| *held as usize).eq(expected.iter().copied()), "ring {level}");
            assert!(ring.counted && ring.slots == SLOTS);
            assert_eq!(ring.hand as u64, self.now.0 / ring.slot_ticks % SLOTS as u64, "at {}", self.now);
        }
        assert_eq!(self.ring(LEVELS, &mut [0; SLOTS]), None);
    }

    fn check_lines(
        &self,
        place: Place,
        mut next: Link,
        used: &mut BTreeSet<u32>,
        found: &mut Vec<(u32, Place)>,
    ) {
        while let (Some(line), Some(number)) = (self.spilled_line(next), next.number()) {
            assert!(used.insert(number), "line {number} is of one slot");
            assert_eq!(line.len(), FULL, "line {number}");
            found.extend(line.entries().iter().map(|entry| (*entry, place)));
            next = line.next();
        }
    }
}
