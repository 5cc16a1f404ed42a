//! A hierarchy of wheels with growing slots.
//!
//! ```text
//!                slot     0      1      2    ...  2^SLOT_BITS - 1
//!    level 2           [     ][     ][     ] ... [     ]       a slot: 2^(2 * GRAIN_BITS) ticks
//!    level 1           [     ][     ][     ] ... [     ]       a slot: 2^GRAIN_BITS ticks
//!    level 0           [     ][     ][     ] ... [     ]       a slot: 1 tick
//!                                ^
//!                        number mod 2^SLOT_BITS, slots numbered from tick 0
//! ```
//!
//! | | |
//! |---|---|
//! | source | Varghese & Lauck 1997, section VI-B, figure 7; their levels have arrays of different sizes, for days to seconds |
//! | costs | O(1) to add a node to a slot and to remove it; the next occupied slot is searched for on each non-empty level |
//! | memory | 4 bytes and one bit per slot; 8 bytes per level |
//! | limits | a level holds slots that begin less than a revolution ahead; the scheme chooses the levels and moves the nodes |

use super::list::{List, ListNode};
use super::slots::{Slots, next_bit};
use super::timers::AdvanceStep;
use crate::{SlotRing, Tick, WorkBudget};

/// `LEVELS` wheels of `2^SLOT_BITS` slots. A slot of each level is `2^GRAIN_BITS` times as long as a slot of
/// the level below.
///
/// The slots of a level are numbered from tick 0. A level holds the slots that begin now or less than one
/// revolution ahead.
#[derive(Debug)]
pub(super) struct Hierarchy<const SLOT_BITS: u32, const GRAIN_BITS: u32, const LEVELS: usize> {
    slots: Slots,
    pub(super) lens: [usize; LEVELS],
}

#[derive(Clone, Copy)]
pub(super) struct OccupiedSlot {
    pub(super) tick: Tick,
    pub(super) first: u32,
}

impl<const SLOT_BITS: u32, const GRAIN_BITS: u32, const LEVELS: usize>
    Hierarchy<SLOT_BITS, GRAIN_BITS, LEVELS>
{
    pub(super) const SLOTS: u64 = 1 << SLOT_BITS;
    const WORDS: usize = (1 << SLOT_BITS) / u64::BITS as usize;

    pub(super) fn new() -> Self {
        const { assert!(SLOT_BITS >= u64::BITS.ilog2(), "a level's bits fill words") };
        Hierarchy { slots: Slots::new(LEVELS << SLOT_BITS), lens: [0; LEVELS] }
    }

    /// Returns the number of the slot of `level` that contains `tick`.
    pub(super) fn number(level: u32, tick: Tick) -> u64 {
        tick.0 >> (level * GRAIN_BITS)
    }

    /// Returns the number of the first slot of `level` that begins at or after `tick`, which must not be 0.
    pub(super) fn number_from(level: u32, tick: Tick) -> u64 {
        ((tick.0 - 1) >> (level * GRAIN_BITS)) + 1
    }

    /// Returns the first tick of a slot, or `u64::MAX` if the slot begins after that.
    fn begin(level: u32, number: u64) -> Tick {
        let shift = level * GRAIN_BITS;
        Tick(if number <= u64::MAX >> shift { number << shift } else { u64::MAX })
    }

    pub(super) fn link(&mut self, nodes: &mut [ListNode], index: u32, level: u32, number: u64) {
        let slot = (level as usize) << SLOT_BITS | position_of::<SLOT_BITS>(number);
        self.slots.push_front(nodes, slot, index);
        self.lens[level as usize] += 1;
    }

    pub(super) fn unlink(&mut self, nodes: &mut [ListNode], index: u32) {
        let level = nodes[index as usize].link.list as usize >> SLOT_BITS;
        self.slots.unlink(nodes, index);
        self.lens[level] -= 1;
    }

    /// Returns the first occupied slot that the hierarchy reaches. A slot that begins now is returned until
    /// it is empty.
    pub(super) fn next_event(&self, now: Tick) -> Option<OccupiedSlot> {
        let mut earliest: Option<OccupiedSlot> = None;
        for (level, &len) in (0..).zip(&self.lens) {
            if len == 0 {
                continue;
            }
            let current = Self::number(level, now);
            let words = level as usize * Self::WORDS;
            let words = &self.slots.occupied[words..words + Self::WORDS];
            let slot = next_bit(words, position_of::<SLOT_BITS>(current)).expect("the level is not empty");
            let ahead = (slot as u64).wrapping_sub(current) & (Self::SLOTS - 1);
            let tick = Self::begin(level, current.saturating_add(ahead));
            if earliest.is_none_or(|earliest| tick < earliest.tick) {
                let List { first } = self.slots.lists[(level as usize) << SLOT_BITS | slot];
                earliest = Some(OccupiedSlot { tick, first });
            }
            if tick == now {
                break;
            }
        }
        earliest
    }

    /// Drives towards `until`. Returns a timer that is due; any other timer in a slot that begins moves to
    /// the level and slot that `place` returns for the current tick and the timer's due tick.
    pub(super) fn advance(
        &mut self,
        nodes: &mut [ListNode],
        now: &mut Tick,
        until: Tick,
        work: &mut WorkBudget,
        place: impl Fn(Tick, Tick) -> (u32, u64),
    ) -> AdvanceStep {
        while let Some(OccupiedSlot { tick, first }) =
            self.next_event(*now).filter(|event| event.tick <= until)
        {
            if !work.spend() {
                return AdvanceStep::OutOfBudget;
            }
            *now = tick;
            self.unlink(nodes, first);
            let due = nodes[first as usize].due;
            if due <= tick {
                return AdvanceStep::Due(first);
            }
            let (level, number) = place(tick, due);
            self.link(nodes, first, level, number);
        }
        AdvanceStep::UpToDate
    }

    pub(super) fn ring(
        &self,
        now: Tick,
        level: usize,
        counts: &mut [u32; SlotRing::MAX_SLOTS],
    ) -> Option<SlotRing> {
        let number = u32::try_from(level).ok().filter(|_| level < LEVELS)?;
        let words = &self.slots.occupied[level * Self::WORDS..][..Self::WORDS];
        let hand = position_of::<SLOT_BITS>(Self::number(number, now));
        Some(SlotRing::from_bitmap(words, 1 << SLOT_BITS, 1 << (number * GRAIN_BITS), hand, counts))
    }

    /// Panics unless the slot of every timer begins now or less than one revolution ahead, and `begins`
    /// accepts the timer's due tick and the beginning of its slot. Returns the nodes.
    #[cfg(test)]
    pub(super) fn check(
        &self,
        nodes: &[ListNode],
        now: Tick,
        begins: impl Fn(Tick, Tick) -> bool,
    ) -> alloc::vec::Vec<u32> {
        let mut lens = [0; LEVELS];
        let mut occupied_slots = [[0; SlotRing::MAX_SLOTS]; LEVELS];
        let mut all = alloc::vec::Vec::new();
        for (slot, held) in self.slots.check(nodes) {
            let level = u32::try_from(slot >> SLOT_BITS).expect("a level");
            lens[level as usize] += held.len();
            occupied_slots[level as usize][slot % (1 << SLOT_BITS)] = 1;
            let current = Self::number(level, now);
            let ahead = (slot as u64).wrapping_sub(current) & (Self::SLOTS - 1);
            let begin = Self::begin(level, current.saturating_add(ahead));
            assert!(begin >= now, "slot {slot} began at {begin}, before {now}");
            for &index in &held {
                let due = nodes[index as usize].due;
                assert!(begins(due, begin), "{due} waits until {begin} on level {level} at {now}");
            }
            all.extend(held);
        }
        assert_eq!(lens, self.lens);
        self.check_rings(now, &occupied_slots);
        all
    }

    #[cfg(test)]
    fn check_rings(&self, now: Tick, occupied_slots: &[[u32; SlotRing::MAX_SLOTS]; LEVELS]) {
        for (level, occupied_slots) in occupied_slots.iter().enumerate() {
            let mut held = [u32::MAX; SlotRing::MAX_SLOTS];
            let ring = self.ring(now, level, &mut held).expect("every level has a ring");
            assert_eq!((&held, ring.slots), (occupied_slots, 1 << SLOT_BITS), "ring {level}");
            assert_eq!(ring.hand as u64, now.0 / ring.slot_ticks % Self::SLOTS, "at {now}");
        }
    }
}

fn position_of<const SLOT_BITS: u32>(number: u64) -> usize {
    usize::try_from(number & ((1 << SLOT_BITS) - 1)).expect("below the number of slots")
}
