use core::fmt;

use super::slot_id::SlotId;

/// Slot that holds the valid entry of a timer, and whether the timer is armed, in one word.
///
/// A slot holds *entries*, each of which identifies a timer. An entry is valid if the state of its timer
/// refers to that slot; otherwise it is a *hole*. A timer can therefore be moved or removed without touching
/// the slot it leaves.
///
/// ```text
///  31        30         29      28 .. 12   11 .. 0
///  disarmed  postponed  marked             slot, or all ones for no slot
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct TimerState(u32);

/// Bit that is set if the timer is not armed. Its entry stays in the slot and is reused if the timer is armed
/// again.
const DISARMED: u32 = 1 << 31;

/// Bit that is set if the timer may be due later than its slot: the timer was postponed, or armed again while
/// its entry was still in the slot.
const POSTPONED: u32 = 1 << 30;

/// Bit used by the [`Sweep`](super::slots::Sweep).
const MARKED: u32 = 1 << 29;

const SLOT_MASK: u32 = 0xfff;

impl TimerState {
    /// State of a timer without a valid entry.
    pub(super) const NO_ENTRY: TimerState = TimerState(DISARMED | SLOT_MASK);

    /// Returns the state of an armed timer with its entry in this slot.
    #[inline(always)]
    pub(super) fn in_slot(slot: SlotId) -> TimerState {
        TimerState(slot.to_bits())
    }

    #[inline(always)]
    pub(super) fn is_armed(self) -> bool {
        self.0 < DISARMED
    }

    #[inline(always)]
    pub(super) fn has_entry_in(self, slot: SlotId) -> bool {
        self.0 & SLOT_MASK == slot.to_bits()
    }

    #[inline(always)]
    pub(super) fn slot(self) -> Option<SlotId> {
        (self.0 & SLOT_MASK != SLOT_MASK).then(|| SlotId::from_bits(self.0 & SLOT_MASK))
    }

    /// Returns the state of the timer once it is armed with a later deadline: the entry stays in its slot
    /// until the wheel reaches the slot.
    #[inline(always)]
    pub(super) fn postponed(self) -> TimerState {
        TimerState(self.0 & !DISARMED | POSTPONED)
    }

    /// Returns the state of the timer once it is disarmed. The entry stays in its slot.
    #[inline(always)]
    pub(super) fn disarmed(self) -> TimerState {
        TimerState(self.0 | DISARMED)
    }

    pub(super) fn is_marked(self) -> bool {
        self.0 & MARKED != 0
    }

    pub(super) fn marked(self, marked: bool) -> TimerState {
        TimerState(if marked { self.0 | MARKED } else { self.0 & !MARKED })
    }
}

impl fmt::Debug for TimerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (late, disarmed) = (self.0 & POSTPONED != 0, !self.is_armed());
        write!(f, "{:?}, late: {late}, disarmed: {disarmed}", self.slot())
    }
}
