//! The slots of a wheel as a ring, for display.

#[cfg(feature = "schemes")]
use core::ops::Range;

/// Layout of a ring of slots: one level of a hierarchy, or all slots of a single wheel. Meant for drawing;
/// see [`TimerQueue::ring`](crate::TimerQueue::ring).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRing {
    /// Number of slots, at most [`MAX_SLOTS`](Self::MAX_SLOTS). A wheel with more slots is reported in groups
    /// of adjacent slots, all of the same size except possibly the last.
    pub slots: usize,
    /// Length of a slot in ticks.
    pub slot_ticks: u64,
    /// Slot of the current tick.
    pub hand: usize,
    /// Whether the timers of each slot are counted. If not, `counts` only says whether a slot is occupied.
    pub has_counts: bool,
}

impl SlotRing {
    /// Maximum number of slots in a ring.
    pub const MAX_SLOTS: usize = 256;

    /// Describes a ring of `slots` slots of `width` ticks with the hand at slot `hand`. Sets `counts` to 1
    /// for each occupied slot and to 0 for the others.
    #[cfg(feature = "schemes")]
    pub(crate) fn from_bitmap(
        occupied: &[u64],
        slots: usize,
        width: u64,
        hand: usize,
        counts: &mut [u32; Self::MAX_SLOTS],
    ) -> SlotRing {
        let together = slots.div_ceil(Self::MAX_SLOTS);
        counts.fill(0);
        let begins = (0..slots).step_by(together);
        for (count, begin) in counts.iter_mut().zip(begins) {
            *count = u32::from(any_bit(occupied, begin..slots.min(begin + together)));
        }
        SlotRing {
            slots: slots.div_ceil(together),
            slot_ticks: width.saturating_mul(together as u64),
            hand: hand / together,
            has_counts: false,
        }
    }
}

/// Returns whether any bit in this non-empty range is set.
#[cfg(feature = "schemes")]
fn any_bit(words: &[u64], bits: Range<usize>) -> bool {
    const BITS: usize = u64::BITS as usize;
    let last = bits.end - 1;
    (bits.start / BITS..=last / BITS).any(|word| {
        let from = if word == bits.start / BITS { bits.start % BITS } else { 0 };
        let to = if word == last / BITS { last % BITS } else { BITS - 1 };
        words[word] & u64::MAX << from & u64::MAX >> (BITS - 1 - to) != 0
    })
}

#[cfg(all(test, feature = "schemes"))]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    /// Occupies one slot at a time, in rings of many sizes.
    #[test]
    fn each_slot_is_reported_in_one_place() {
        for slots in [1_usize, 2, 7, 64, 255, 256, 257, 511, 1000, 4096, 5000] {
            let together = slots.div_ceil(256);
            for slot in (0..slots).step_by(if cfg!(miri) { slots.div_ceil(5) } else { 1 }) {
                let mut occupied = vec![0; slots.div_ceil(64)];
                occupied[slot / 64] = 1 << (slot % 64);
                let mut held = [9; SlotRing::MAX_SLOTS];
                let ring = SlotRing::from_bitmap(&occupied, slots, 50, slot, &mut held);
                let lit: Vec<_> = (0..256).filter(|slot| held[*slot] == 1).collect();
                assert_eq!((lit, ring.hand), (vec![slot / together], slot / together), "{slot} of {slots}");
                assert_eq!(held.iter().sum::<u32>(), 1, "another slot is occupied");
                assert!(ring.hand < ring.slots && ring.slots <= SlotRing::MAX_SLOTS && !ring.has_counts);
                assert_eq!(ring.slot_ticks, 50 * together as u64);
                assert!(ring.slots * together >= slots && (ring.slots - 1) * together < slots);
            }
        }
    }

    #[test]
    fn a_server_s_wheel_of_16_384_slots_is_a_ring_of_256() {
        let mut held = [0; SlotRing::MAX_SLOTS];
        let occupied = vec![u64::MAX; 256];
        let ring = SlotRing::from_bitmap(&occupied, 1 << 14, 1, 16_383, &mut held);
        assert_eq!(ring, SlotRing { slots: 256, slot_ticks: 64, hand: 255, has_counts: false });
        assert_eq!(held, [1; 256]);
    }
}
