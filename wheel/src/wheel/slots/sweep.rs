//! Removal of holes, so that moved and cancelled timers do not accumulate.

use super::{BITS, EntryLine, LineLink, SlotId, Slots};

/// A pass over all slots, one line at a time, that drops holes and puts the valid entries back.
///
/// A timer that has left a slot and returned to it has two entries in that slot, both of which look valid.
/// Every other pass therefore *marks* the state of each timer with a valid entry, and treats an entry whose
/// timer is already marked as a hole. The pass in between clears the marks.
#[derive(Debug, Default)]
pub(in crate::wheel) struct Sweep {
    slot: Option<SlotId>,
    /// Lines of `slot` that are still to be visited. They are detached from the slot, whose own lines now end
    /// in [`LineLink::SWEPT`].
    pending: Option<LineLink>,
    marks: bool,
}

impl Sweep {
    pub(super) fn is_in_progress_in(&self, slot: SlotId) -> bool {
        self.slot == Some(slot) && self.pending.is_some()
    }

    /// Stops sweeping this slot because the wheel has reached it. Returns the lines not visited yet, so that
    /// the caller can attach them to the slot again.
    pub(super) fn abandon(&mut self, slot: SlotId) -> LineLink {
        if self.slot == Some(slot) { self.pending.take().unwrap_or(LineLink::END) } else { LineLink::END }
    }
}

#[cfg(test)]
impl Sweep {
    pub(super) fn pending_of(&self, slot: SlotId) -> LineLink {
        self.pending.filter(|_| self.slot == Some(slot)).unwrap_or(LineLink::END)
    }
}

impl Slots {
    /// Sweeps one more line.
    ///
    /// `counts` returns whether an entry of a slot is valid. In a marking pass, it returns `false` if the
    /// timer is already marked, and otherwise marks it. In the other pass, it clears the mark.
    #[inline(never)]
    pub(in crate::wheel) fn sweep(&mut self, mut counts: impl FnMut(u32, SlotId, bool) -> bool) {
        let marks = self.sweep.marks;
        if let (Some(slot), Some(rest)) = (self.sweep.slot, self.sweep.pending) {
            let line = rest.number().map(|number| self.take_spilled(slot, number));
            self.sweep.pending = line.map(|line| line.next()).filter(|next| next.number().is_some());
            for entry in line.as_ref().map_or(&[][..], EntryLine::entries) {
                if counts(*entry, slot, marks) {
                    self.put(slot, *entry);
                } else {
                    self.holes -= 1;
                }
            }
        } else if let Some(slot) = self.next_slot_to_sweep() {
            let line = &mut self.lines[slot.index()];
            let before = line.len();
            line.retain(|entry| counts(entry, slot, marks));
            self.holes -= (before - line.len()) as usize;
            let next = line.next();
            if next.number().is_some() {
                line.set_next(LineLink::SWEPT);
                self.sweep.pending = Some(next);
            }
        }
        if let (Some(slot), None) = (self.sweep.slot, self.sweep.pending) {
            self.finish_slot(slot);
        }
    }

    fn finish_slot(&mut self, slot: SlotId) {
        let line = &self.lines[slot.index()];
        if line.has_entries() || line.next().number().is_some() {
            return;
        }
        self.refill(slot);
        if slot.start(self.now) == Some(self.quiet_until) && self.now < self.quiet_until {
            self.find_next();
        }
    }

    /// Returns the next occupied slot other than the current one, which the wheel is emptying. After the last
    /// slot, switches between marking and clearing.
    fn next_slot_to_sweep(&mut self) -> Option<SlotId> {
        let mut from = self.sweep.slot.map_or(0, |slot| slot.index() + 1);
        self.sweep.slot = loop {
            let Some(slot) = self.occupied_from(from) else { break None };
            if slot.start(self.now) != Some(self.now) {
                break Some(slot);
            }
            from = slot.index() + 1;
        };
        self.sweep.marks ^= self.sweep.slot.is_none();
        self.sweep.slot
    }

    fn occupied_from(&self, from: usize) -> Option<SlotId> {
        let mut at = from / BITS;
        let mut bits = self.occupied.get(at)? & (u64::MAX << (from % BITS));
        while bits == 0 {
            at += 1;
            bits = *self.occupied.get(at)?;
        }
        Some(SlotId::from_index(at * BITS + bits.trailing_zeros() as usize))
    }
}
