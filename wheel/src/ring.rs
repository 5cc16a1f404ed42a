//! What a ring of slots looks like.

#[cfg(feature = "schemes")]
use core::ops::Range;

/// A ring of slots, for those who draw one: a level of a hierarchy, or the slots of a wheel that stands alone. See
/// [`TimerQueue::ring`](crate::TimerQueue::ring).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// How many slots it has, [`MOST_SLOTS`](Self::MOST_SLOTS) at most. Where a wheel has more, neighbours count as one slot, always as many;
    /// only the last may be fewer.
    pub slots: usize,
    /// How many ticks a slot is long.
    pub slot_ticks: u64,
    /// The slot at which the hand stands: that of the present tick.
    pub hand: usize,
    /// Whether the timers of each slot are counted. If not, all that is known is which slots hold some.
    pub counted: bool,
}

impl Ring {
    /// The most slots that are told apart.
    pub const MOST_SLOTS: usize = 256;

    /// A ring of so many slots of `width` ticks, the hand at slot `hand`. A bit of `occupied` says whether a slot holds anything: then
    /// there is 1 in `held`, and 0 otherwise.
    #[cfg(feature = "schemes")]
    pub(crate) fn of_bits(
        occupied: &[u64],
        slots: usize,
        width: u64,
        hand: usize,
        held: &mut [u32; Self::MOST_SLOTS],
    ) -> Ring {
        let together = slots.div_ceil(Self::MOST_SLOTS);
        held.fill(0);
        let begins = (0..slots).step_by(together);
        for (held, begin) in held.iter_mut().zip(begins) {
            *held = u32::from(any_bit(occupied, begin..slots.min(begin + together)));
        }
        Ring {
            slots: slots.div_ceil(together),
            slot_ticks: width.saturating_mul(together as u64),
            hand: hand / together,
            counted: false,
        }
    }
}

/// Whether any of these bits is set, of which there is at least one.
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

    /// Each slot alone, in rings of every kind of size.
    #[test]
    fn a_slot_is_lit_in_one_place() {
        for slots in [1_usize, 2, 7, 64, 255, 256, 257, 511, 1000, 4096, 5000] {
            let together = slots.div_ceil(256);
            for slot in (0..slots).step_by(if cfg!(miri) { slots.div_ceil(5) } else { 1 }) {
                let mut occupied = vec![0; slots.div_ceil(64)];
                occupied[slot / 64] = 1 << (slot % 64);
                let mut held = [9; Ring::MOST_SLOTS];
                let ring = Ring::of_bits(&occupied, slots, 50, slot, &mut held);
                let lit: Vec<_> = (0..256).filter(|slot| held[*slot] == 1).collect();
                assert_eq!((lit, ring.hand), (vec![slot / together], slot / together), "{slot} of {slots}");
                assert_eq!(held.iter().sum::<u32>(), 1, "nothing else is left there");
                assert!(ring.hand < ring.slots && ring.slots <= Ring::MOST_SLOTS && !ring.counted);
                assert_eq!(ring.slot_ticks, 50 * together as u64);
                assert!(ring.slots * together >= slots && (ring.slots - 1) * together < slots);
            }
        }
    }

    #[test]
    fn a_server_s_wheel_of_16_384_slots_is_a_ring_of_256() {
        let mut held = [0; Ring::MOST_SLOTS];
        let occupied = vec![u64::MAX; 256];
        let ring = Ring::of_bits(&occupied, 1 << 14, 1, 16_383, &mut held);
        assert_eq!(ring, Ring { slots: 256, slot_ticks: 64, hand: 255, counted: false });
        assert_eq!(held, [1; 256]);
    }
}
