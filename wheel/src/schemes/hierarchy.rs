//! Wheels of growing slots, one above the other.
//!
//! ```text
//!                slot     0      1      2    ...  2^SLOT_BITS - 1
//!    level 2           [     ][     ][     ] ... [     ]       a slot: 2^(2 * GRAIN_BITS) ticks
//!    level 1           [     ][     ][     ] ... [     ]       a slot: 2^GRAIN_BITS ticks
//!    level 0           [     ][     ][     ] ... [     ]       a slot: 1 tick
//!                                ^
//!                        number mod 2^SLOT_BITS, where slots are numbered from tick 0 on
//! ```
//!
//! | | |
//! |---|---|
//! | source | Varghese & Lauck 1997, section VI-B, figure 7; their levels have arrays of different sizes, for days to seconds |
//! | costs | O(1) to put a node into a slot and to take it out; the next slot with timers is looked for on each level that has any |
//! | memory | 4 bytes and a bit a slot; 8 bytes a level |
//! | limits | a level holds what begins less than a turn ahead; which level, and what moves where, is the scheme's choice |

use super::list::{List, ListNode};
use super::slots::{Slots, next_bit};
use super::timers::Step;
use crate::{Ring, Tick, Work};

/// `LEVELS` wheels of `2^SLOT_BITS` slots, those of each level `2^GRAIN_BITS` times as long as those of the level below.
///
/// The slots of a level are numbered from tick 0 on. It holds those that begin now or less than a turn ahead.
#[derive(Debug)]
pub(super) struct Hierarchy<const SLOT_BITS: u32, const GRAIN_BITS: u32, const LEVELS: usize> {
    slots: Slots,
    /// How many timers each level holds.
    pub(super) lens: [usize; LEVELS],
}

/// A slot that is not empty.
#[derive(Clone, Copy)]
pub(super) struct Event {
    /// When it begins.
    pub(super) tick: Tick,
    /// The first timer in it.
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

    /// The number of the slot of `level` in which `tick` lies.
    pub(super) fn number(level: u32, tick: Tick) -> u64 {
        tick.0 >> (level * GRAIN_BITS)
    }

    /// The number of the first slot of `level` that begins at `tick`, which is not 0, or later.
    pub(super) fn number_from(level: u32, tick: Tick) -> u64 {
        ((tick.0 - 1) >> (level * GRAIN_BITS)) + 1
    }

    /// When a slot begins; at the last tick, if that would be after it.
    fn begin(level: u32, number: u64) -> Tick {
        let shift = level * GRAIN_BITS;
        Tick(if number <= u64::MAX >> shift { number << shift } else { u64::MAX })
    }

    pub(super) fn link(&mut self, nodes: &mut [ListNode], index: u32, level: u32, number: u64) {
        let slot = (level as usize) << SLOT_BITS | in_turn::<SLOT_BITS>(number);
        self.slots.push_front(nodes, slot, index);
        self.lens[level as usize] += 1;
    }

    pub(super) fn unlink(&mut self, nodes: &mut [ListNode], index: u32) {
        let level = nodes[index as usize].link.list as usize >> SLOT_BITS;
        self.slots.unlink(nodes, index);
        self.lens[level] -= 1;
    }

    /// The first slot with timers that the hierarchy comes to. It is one that begins now until those are empty.
    pub(super) fn next_event(&self, now: Tick) -> Option<Event> {
        let mut earliest: Option<Event> = None;
        for (level, &len) in (0..).zip(&self.lens) {
            if len == 0 {
                continue;
            }
            let current = Self::number(level, now);
            let words = level as usize * Self::WORDS;
            let words = &self.slots.occupied[words..words + Self::WORDS];
            let slot = next_bit(words, in_turn::<SLOT_BITS>(current)).expect("the level is not empty");
            let ahead = (slot as u64).wrapping_sub(current) & (Self::SLOTS - 1);
            let tick = Self::begin(level, current.saturating_add(ahead));
            if earliest.is_none_or(|earliest| tick < earliest.tick) {
                let List { first } = self.slots.lists[(level as usize) << SLOT_BITS | slot];
                earliest = Some(Event { tick, first });
            }
            if tick == now {
                break;
            }
        }
        earliest
    }

    /// Drives towards `until`: a timer that is due comes out, any other in a slot that begins moves to the level and slot that
    /// `place` says, at a time, for its due tick.
    pub(super) fn advance(
        &mut self,
        nodes: &mut [ListNode],
        now: &mut Tick,
        until: Tick,
        work: &mut Work,
        place: impl Fn(Tick, Tick) -> (u32, u64),
    ) -> Step {
        while let Some(Event { tick, first }) = self.next_event(*now).filter(|event| event.tick <= until) {
            if !work.spend() {
                return Step::OutOfWork;
            }
            *now = tick;
            self.unlink(nodes, first);
            let due = nodes[first as usize].due;
            if due <= tick {
                return Step::Due(first);
            }
            let (level, number) = place(tick, due);
            self.link(nodes, first, level, number);
        }
        Step::UpToDate
    }

    /// A level as a ring.
    pub(super) fn ring(&self, now: Tick, level: usize, held: &mut [u32; Ring::MOST_SLOTS]) -> Option<Ring> {
        let number = u32::try_from(level).ok().filter(|_| level < LEVELS)?;
        let words = &self.slots.occupied[level * Self::WORDS..][..Self::WORDS];
        let hand = in_turn::<SLOT_BITS>(Self::number(number, now));
        Some(Ring::of_bits(words, 1 << SLOT_BITS, 1 << (number * GRAIN_BITS), hand, held))
    }

    /// Panics unless every timer is in a slot that begins now or ahead of it, less than a turn, at `begins` for its due
    /// tick. Returns the nodes.
    #[cfg(test)]
    pub(super) fn check(
        &self,
        nodes: &[ListNode],
        now: Tick,
        begins: impl Fn(Tick, Tick) -> bool,
    ) -> alloc::vec::Vec<u32> {
        let mut lens = [0; LEVELS];
        let mut lit = [[0; Ring::MOST_SLOTS]; LEVELS];
        let mut all = alloc::vec::Vec::new();
        for (slot, held) in self.slots.check(nodes) {
            let level = u32::try_from(slot >> SLOT_BITS).expect("a level");
            lens[level as usize] += held.len();
            lit[level as usize][slot % (1 << SLOT_BITS)] = 1;
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
        self.check_rings(now, &lit);
        all
    }

    /// The slots that hold anything are seen, and no other is; the hand stands at that of the present tick.
    #[cfg(test)]
    fn check_rings(&self, now: Tick, lit: &[[u32; Ring::MOST_SLOTS]; LEVELS]) {
        for (level, lit) in lit.iter().enumerate() {
            let mut held = [u32::MAX; Ring::MOST_SLOTS];
            let ring = self.ring(now, level, &mut held).expect("every level is a ring");
            assert_eq!((&held, ring.slots), (lit, 1 << SLOT_BITS), "ring {level}");
            assert_eq!(ring.hand as u64, now.0 / ring.slot_ticks % Self::SLOTS, "at {now}");
        }
    }
}

/// Where slot `number` is in its turn.
fn in_turn<const SLOT_BITS: u32>(number: u64) -> usize {
    usize::try_from(number & ((1 << SLOT_BITS) - 1)).expect("less than the slots")
}
