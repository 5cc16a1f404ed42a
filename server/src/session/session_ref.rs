use encke_base::arena::{Slot, SlotKey};

/// Weak reference to a session. It can no longer be resolved once the session has ended. References are
/// ordered by slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionRef(pub(super) SlotKey);

impl SessionRef {
    /// Returns the reference to a session, to which the caller has a handle.
    pub(super) fn of(session: &impl Slot) -> Self {
        Self(SlotKey::of(session))
    }

    /// Returns a reference that sorts before those of all sessions in this slot and in later slots.
    pub(super) fn first_in(slot: u32) -> Self {
        Self(SlotKey::first_in(slot))
    }

    /// Returns the slot of the session.
    pub(crate) fn slot(self) -> u32 {
        self.0.index()
    }

    /// Packs the reference into a number that the kernel can store.
    pub(crate) fn to_u64(self) -> u64 {
        self.0.to_u64()
    }

    /// Inverse of [`Self::to_u64`].
    pub(crate) fn from_u64(number: u64) -> Self {
        Self(SlotKey::from_u64(number))
    }
}
