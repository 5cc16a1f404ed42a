//! Mapping from deadlines to slots.
//!
//! Written in base 256, a tick has eight digits, one for each level of the wheel. A slot of level `l` is the
//! set of ticks that agree in all digits from `l` upwards. A timer belongs to the lowest level on which its
//! slot is less than one revolution ahead. Eight levels cover all of `u64`, so there is no overflow.

use core::fmt;

use crate::Tick;

/// Number of levels of a wheel: one for each byte of a tick.
pub const LEVELS: usize = 8;

/// Number of slots of a level. The position of a slot within its level fits into a `u8`.
pub(super) const SLOTS_PER_LEVEL: usize = 256;

const _: () = assert!(LEVELS == size_of::<Tick>() && SLOTS_PER_LEVEL == 1 << u8::BITS);

pub(super) const SLOT_COUNT: usize = LEVELS * SLOTS_PER_LEVEL;

/// One slot of one level, identified by its index among the slots of all levels. The index fits into 11 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotId(u32);

impl SlotId {
    #[inline]
    pub(super) fn new(level: u8, slot: u8) -> SlotId {
        SlotId(u32::from(level) << u8::BITS | u32::from(slot))
    }

    /// Returns the slot for a timer with this `deadline` while the wheel is at `now`.
    ///
    /// A deadline that is not in the future is treated as the next tick. At the last tick there is no next
    /// tick; the result is then slot 0 of level 0, which the wheel never reaches.
    #[inline(always)]
    pub(super) fn of(now: Tick, deadline: Tick) -> SlotId {
        let delta = deadline.saturating_since(now).max(1);
        let due = now.0.wrapping_add(delta);
        let level = delta.ilog2() / u8::BITS;
        // A span of fewer than 256^(level+1) ticks can still cross 256 slot boundaries if it begins in the
        // middle of a slot. It would then end in the slot of `now`, one revolution too early.
        let shift = level * u8::BITS;
        let wraps = (due >> shift).wrapping_sub(now.0 >> shift) >= SLOTS_PER_LEVEL as u64;
        let level = u8::try_from(level).expect("a tick has eight digits") + u8::from(wraps);
        SlotId::new(level, digit(due, level))
    }

    /// Like [`of`](Self::of) if the deadline is in the future and less than one revolution of level 0 ahead,
    /// otherwise `None`.
    #[inline(always)]
    pub(super) fn near(now: Tick, deadline: Tick) -> Option<SlotId> {
        let ahead = deadline.0.checked_sub(now.0)?;
        (ahead.wrapping_sub(1) < SLOTS_PER_LEVEL as u64 - 1).then(|| SlotId::new(0, digit(deadline.0, 0)))
    }

    pub(super) fn from_index(number: usize) -> SlotId {
        SlotId(u32::try_from(number).expect("below 2048"))
    }

    #[inline]
    pub(super) fn level(self) -> u8 {
        let [_, level, ..] = self.0.to_le_bytes();
        level
    }

    #[inline]
    pub(super) fn position(self) -> u8 {
        let [slot, ..] = self.0.to_le_bytes();
        slot
    }

    /// Returns the index of the slot, which is below [`SLOT_COUNT`].
    #[inline]
    pub(super) fn index(self) -> usize {
        self.0 as usize % SLOT_COUNT
    }

    #[inline]
    pub(super) fn to_bits(self) -> u32 {
        self.0
    }

    #[inline]
    pub(super) fn from_bits(bits: u32) -> SlotId {
        SlotId(bits)
    }

    #[inline]
    pub(super) fn current(now: Tick, level: u8) -> SlotId {
        SlotId::new(level, digit(now.0, level))
    }

    /// Returns the first tick of this slot when a wheel at `now` next reaches it, or `None` if that is beyond
    /// the last tick.
    ///
    /// For the slot that contains `now`, this is the tick at which the wheel reached it, not the tick one
    /// revolution later.
    #[inline]
    pub(super) fn start(self, now: Tick) -> Option<Tick> {
        let shift = u32::from(self.level()) * u8::BITS;
        let ahead = self.position().wrapping_sub(digit(now.0, self.level()));
        let slots = (now.0 >> shift).checked_add(u64::from(ahead))?;
        Some(Tick(slots << shift))
    }
}

impl fmt::Debug for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {} of level {}", self.position(), self.level())
    }
}

/// Returns digit number `level` of `tick` in base 256.
fn digit(tick: u64, level: u8) -> u8 {
    #[expect(clippy::cast_possible_truncation, reason = "only the digit remains")]
    let digit = (tick >> (u32::from(level) * u8::BITS)) as u8;
    digit
}
