use super::arming::Arming;
use crate::arena::Chunks;

/// The timers of sessions, by the slots that these live in: each is that of one session after the other. So a session's timer has no memory of its own, and
/// no count of those who know of it; what knows of it has the slot's number.
#[derive(Debug)]
pub(super) struct SlotTimers(Chunks<Arming>);

impl SlotTimers {
    /// For so many slots. Their timers are made as they are needed, many at a time.
    pub(super) fn new(slots: usize) -> Self {
        Self(Chunks::new(slots))
    }

    #[inline]
    pub(super) fn get(&self, slot: u32) -> &Arming {
        self.0.get_or_make(slot, |_| Arming::new())
    }
}
