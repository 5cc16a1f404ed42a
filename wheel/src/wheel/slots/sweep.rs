//! Taking holes out, so that what has moved does not add up.

use super::{BITS, Line, Link, Place, Slots};

/// Goes through all slots, and through each a line at a time: what counts is put into the slot anew.
///
/// A timer that has left a slot and come back has two entries there, which both seem to count. So every other time around, whatever
/// counts is *marked* in the timer's state, and what is marked already goes. The time between takes the marks away.
#[derive(Debug, Default)]
pub(in crate::wheel) struct Sweep {
    place: Option<Place>,
    /// Lines of that slot which are still to be looked at. The slot's own lines end in [`Link::SWEPT`].
    rest: Option<Link>,
    /// Whether this time around marks.
    marks: bool,
}

impl Sweep {
    /// Whether some lines of this slot are still to be looked at.
    pub(super) fn is_at_work_in(&self, place: Place) -> bool {
        self.place == Some(place) && self.rest.is_some()
    }

    /// The wheel comes to a slot: what was still to be looked at is the rest of its lines.
    pub(super) fn give_up(&mut self, place: Place) -> Link {
        if self.place == Some(place) { self.rest.take().unwrap_or(Link::END) } else { Link::END }
    }
}

#[cfg(test)]
impl Sweep {
    /// What is still to be looked at of this slot.
    pub(super) fn rest_of(&self, place: Place) -> Link {
        self.rest.filter(|_| self.place == Some(place)).unwrap_or(Link::END)
    }
}

impl Slots {
    /// Looks at one more line.
    ///
    /// `counts` says whether an entry of a slot counts, and is not marked already, if this time around marks; it does so then, or takes
    /// the mark away.
    #[inline(never)]
    pub(in crate::wheel) fn sweep(&mut self, mut counts: impl FnMut(u32, Place, bool) -> bool) {
        let marks = self.sweep.marks;
        if let (Some(place), Some(rest)) = (self.sweep.place, self.sweep.rest) {
            let line = rest.number().map(|number| self.bring(place, number));
            self.sweep.rest = line.map(|line| line.next()).filter(|next| next.number().is_some());
            for entry in line.as_ref().map_or(&[][..], Line::entries) {
                if counts(*entry, place, marks) {
                    self.put(place, *entry);
                } else {
                    self.holes -= 1;
                }
            }
        } else if let Some(place) = self.next_to_sweep() {
            let line = &mut self.lines[place.number()];
            let before = line.len();
            line.retain(|entry| counts(entry, place, marks));
            self.holes -= (before - line.len()) as usize;
            let next = line.next();
            if next.number().is_some() {
                line.set_next(Link::SWEPT);
                self.sweep.rest = Some(next);
            }
        }
        if let (Some(place), None) = (self.sweep.place, self.sweep.rest) {
            self.swept(place);
        }
    }

    /// All of a slot was looked at.
    fn swept(&mut self, place: Place) {
        let line = &self.lines[place.number()];
        if line.has_entries() || line.next().number().is_some() {
            return;
        }
        self.refill(place);
        if place.start(self.now) == Some(self.quiet_until) && self.now < self.quiet_until {
            self.look_ahead();
        }
    }

    /// The next slot that is not empty, and where the wheel is not at work. Past the last one, it is the other kind of time around.
    fn next_to_sweep(&mut self) -> Option<Place> {
        let mut from = self.sweep.place.map_or(0, |place| place.number() + 1);
        self.sweep.place = loop {
            let Some(place) = self.occupied_from(from) else { break None };
            if place.start(self.now) != Some(self.now) {
                break Some(place);
            }
            from = place.number() + 1;
        };
        self.sweep.marks ^= self.sweep.place.is_none();
        self.sweep.place
    }

    fn occupied_from(&self, from: usize) -> Option<Place> {
        let mut at = from / BITS;
        let mut bits = self.occupied.get(at)? & (u64::MAX << (from % BITS));
        while bits == 0 {
            at += 1;
            bits = *self.occupied.get(at)?;
        }
        Some(Place::numbered(at * BITS + bits.trailing_zeros() as usize))
    }
}
