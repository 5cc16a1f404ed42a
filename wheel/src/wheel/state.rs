//! What the wheel knows of one timer besides its deadline.

use core::fmt;

use super::place::Place;

/// Where the entry of a timer stands that counts, and whether the timer is armed, in one word.
///
/// A slot holds *entries*, of which each names a timer. An entry counts if its timer's state names that slot; what does not is a
/// *hole*. So a timer that moves, or goes, need not be taken out of the slot where it stood.
///
/// ```text
///  31        30    29      28 .. 12   11 .. 0
///  disarmed  late  marked             slot, or that there is none
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct State(u32);

/// Its entry stays where it is, and is of use should the timer be armed again.
const DISARMED: u32 = 1 << 31;

/// It may be due later than its slot comes up: it was put off, or armed again where its entry was.
const LATE: u32 = 1 << 30;

/// See [`Sweep`](super::slots::Sweep).
const MARKED: u32 = 1 << 29;

const PLACE: u32 = 0xfff;

impl State {
    /// Nothing that names the timer counts.
    pub(super) const NOWHERE: State = State(DISARMED | PLACE);

    /// Armed, in this slot.
    #[inline(always)]
    pub(super) fn standing_in(place: Place) -> State {
        State(place.to_bits())
    }

    #[inline(always)]
    pub(super) fn is_armed(self) -> bool {
        self.0 < DISARMED
    }

    /// Whether an entry in this slot counts.
    #[inline(always)]
    pub(super) fn is_in(self, place: Place) -> bool {
        self.0 & PLACE == place.to_bits()
    }

    /// The slot in which its entry stands.
    #[inline(always)]
    pub(super) fn place(self) -> Option<Place> {
        (self.0 & PLACE != PLACE).then(|| Place::from_bits(self.0 & PLACE))
    }

    /// Armed, and maybe due later than its slot, in which it stays until that comes up.
    #[inline(always)]
    pub(super) fn put_off(self) -> State {
        State(self.0 & !DISARMED | LATE)
    }

    /// Not armed. Its entry stays where it is.
    #[inline(always)]
    pub(super) fn disarmed(self) -> State {
        State(self.0 | DISARMED)
    }

    pub(super) fn is_marked(self) -> bool {
        self.0 & MARKED != 0
    }

    pub(super) fn marked(self, marked: bool) -> State {
        State(if marked { self.0 | MARKED } else { self.0 & !MARKED })
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (late, disarmed) = (self.0 & LATE != 0, !self.is_armed());
        write!(f, "{:?}, late: {late}, disarmed: {disarmed}", self.place())
    }
}
