//! Which slot of which level a deadline belongs to.
//!
//! Written in base 256, a tick has eight digits, and each level of the wheel looks at one of them: a slot of
//! level `l` is the set of ticks that agree in all digits from `l` upwards. A timer belongs to the lowest
//! level on which its slot is less than one turn ahead. Every `u64` fits into eight levels, so nothing ever
//! lies beyond the wheel.

use core::fmt;

use crate::Tick;

/// How many levels a wheel has: one for each byte of a tick.
pub const LEVELS: usize = 8;

/// How many slots a level has, so that a slot's number is a `u8`.
pub(super) const SLOTS: usize = 256;

const _: () = assert!(LEVELS == size_of::<Tick>() && SLOTS == 1 << u8::BITS);

/// How many slots there are on all levels.
pub(super) const PLACES: usize = LEVELS * SLOTS;

/// One slot of one level: its number, counting through all levels, which fits into 11 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(u32);

impl Place {
    #[inline]
    pub(super) fn new(level: u8, slot: u8) -> Place {
        Place(u32::from(level) << u8::BITS | u32::from(slot))
    }

    /// Where a timer for `deadline` belongs while the wheel stands at `now`.
    ///
    /// A deadline that is not ahead belongs to the next tick. At the end of time there is none: the slot is
    /// then the one that would come next, and the wheel never gets there.
    #[inline(always)]
    pub(super) fn of(now: Tick, deadline: Tick) -> Place {
        let delta = deadline.saturating_since(now).max(1);
        let due = now.0.wrapping_add(delta);
        let level = delta.ilog2() / u8::BITS;
        // Fewer than 256^(level+1) ticks can still reach over 256 slot boundaries, when they start in the
        // middle of a slot. That would be the slot in which `now` lies, one turn too early.
        let shift = level * u8::BITS;
        let wraps = (due >> shift).wrapping_sub(now.0 >> shift) >= SLOTS as u64;
        let level = u8::try_from(level).expect("a tick has eight digits") + u8::from(wraps);
        Place::new(level, digit(due, level))
    }

    /// The same for a deadline that is less than a turn of the first level ahead; else nothing.
    #[inline(always)]
    pub(super) fn near(now: Tick, deadline: Tick) -> Option<Place> {
        let ahead = deadline.0.checked_sub(now.0)?;
        (ahead.wrapping_sub(1) < SLOTS as u64 - 1).then(|| Place::new(0, digit(deadline.0, 0)))
    }

    /// The slot of a [number](Self::number).
    pub(super) fn numbered(number: usize) -> Place {
        Place(u32::try_from(number).expect("below 2048"))
    }

    #[inline]
    pub(super) fn level(self) -> u8 {
        let [_, level, ..] = self.0.to_le_bytes();
        level
    }

    #[inline]
    pub(super) fn slot(self) -> u8 {
        let [slot, ..] = self.0.to_le_bytes();
        slot
    }

    /// Below [`PLACES`].
    #[inline]
    pub(super) fn number(self) -> usize {
        self.0 as usize % PLACES
    }

    #[inline]
    pub(super) fn to_bits(self) -> u32 {
        self.0
    }

    /// What [`to_bits`](Self::to_bits) has made.
    #[inline]
    pub(super) fn from_bits(bits: u32) -> Place {
        Place(bits)
    }

    /// The slot of `level` in which `now` lies.
    #[inline]
    pub(super) fn current(now: Tick, level: u8) -> Place {
        Place::new(level, digit(now.0, level))
    }

    /// The first tick of this slot, the next time the wheel comes to it from `now`; `None` if that is after
    /// the end of time.
    ///
    /// For the slot in which `now` lies, that is the tick at which the wheel came to it, not one turn later.
    #[inline]
    pub(super) fn start(self, now: Tick) -> Option<Tick> {
        let shift = u32::from(self.level()) * u8::BITS;
        let ahead = self.slot().wrapping_sub(digit(now.0, self.level()));
        let slots = (now.0 >> shift).checked_add(u64::from(ahead))?;
        Some(Tick(slots << shift))
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {} of level {}", self.slot(), self.level())
    }
}

/// Digit number `level` of `tick` in base 256.
fn digit(tick: u64, level: u8) -> u8 {
    #[expect(clippy::cast_possible_truncation, reason = "the digit is what is left")]
    let digit = (tick >> (u32::from(level) * u8::BITS)) as u8;
    digit
}
