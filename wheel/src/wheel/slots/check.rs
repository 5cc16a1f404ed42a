use super::*;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

impl Slots {
    pub(in crate::wheel) fn check(&self) -> Vec<(u32, SlotId)> {
        let mut used = BTreeSet::new();
        let mut found = Vec::new();
        let mut lens = [0; LEVELS];
        let mut held = [0; SLOT_COUNT];
        for (number, line) in self.lines.iter().enumerate() {
            let occupied = self.occupied[number / BITS] >> (number % BITS) & 1 == 1;
            if line.is_empty() && !occupied {
                continue;
            }
            let slot = SlotId::from_index(number);
            // The bit of the current slot is only cleared when the wheel moves on.
            assert!(occupied, "{slot:?} is occupied but its bit is not set");
            assert!(
                !line.is_empty() || slot.start(self.now) == Some(self.now),
                "{slot:?} is empty but its bit is set"
            );
            let before = found.len();
            found.extend(line.entries().iter().map(|entry| (*entry, slot)));
            self.check_lines(slot, line.next(), &mut used, &mut found);
            self.check_lines(slot, self.sweep.pending_of(slot), &mut used, &mut found);
            lens[usize::from(slot.level())] += found.len() - before;
            held[number] = found.len() - before;
        }
        self.check_rings(&held);
        assert_eq!(lens, core::array::from_fn(|level| self.len(level)));
        self.spilled.check(|number| used.contains(&number));
        found
    }

    fn check_rings(&self, expected: &[usize; SLOT_COUNT]) {
        for (level, expected) in expected.chunks(SLOTS_PER_LEVEL).enumerate() {
            let mut held = [u32::MAX; SLOTS_PER_LEVEL];
            let ring = self.ring(level, &mut held).expect("every level has a ring");
            assert!(held.iter().map(|held| *held as usize).eq(expected.iter().copied()), "ring {level}");
            assert!(ring.has_counts && ring.slots == SLOTS_PER_LEVEL);
            assert_eq!(
                ring.hand as u64,
                self.now.0 / ring.slot_ticks % SLOTS_PER_LEVEL as u64,
                "at {}",
                self.now
            );
        }
        assert_eq!(self.ring(LEVELS, &mut [0; SLOTS_PER_LEVEL]), None);
    }

    fn check_lines(
        &self,
        slot: SlotId,
        mut next: LineLink,
        used: &mut BTreeSet<u32>,
        found: &mut Vec<(u32, SlotId)>,
    ) {
        while let (Some(line), Some(number)) = (self.spilled_line(next), next.number()) {
            assert!(used.insert(number), "line {number} belongs to two slots");
            assert_eq!(line.len(), LINE_CAPACITY, "line {number}");
            found.extend(line.entries().iter().map(|entry| (*entry, slot)));
            next = line.next();
        }
    }
}
