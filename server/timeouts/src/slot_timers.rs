use crate::arming::Arming;
use crate::chunks::Chunks;

/// Timers of sessions, indexed by slot. Successive sessions in a slot use the same timer. A session's timer
/// is identified by the slot number, so it needs no allocation and no reference count.
#[derive(Debug)]
pub(crate) struct SlotTimers(Chunks<Arming>);

impl SlotTimers {
    /// Creates a table for `slots` slots. The timers are allocated in chunks when first used.
    pub(crate) fn new(slots: usize) -> Self {
        Self(Chunks::new(slots))
    }

    #[inline]
    pub(crate) fn get(&self, slot: u32) -> &Arming {
        self.0.get_or_init(slot, |_| Arming::new())
    }
}
