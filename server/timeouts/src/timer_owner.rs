/// Owner of a timer. Each owner has one timer, which has at most one entry in the wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerOwner {
    /// The session that occupies this slot. A session has several deadlines; its timer is armed for the
    /// earliest.
    Session(u32),
    /// A channel's log, whose oldest message expires.
    Log(OwnerKey),
    /// A reminder that the backend has scheduled.
    Reminder(OwnerKey),
    /// A task that waits for one of the server's other timeouts ([`Sleep`](crate::Sleep)).
    Sleep,
}

impl TimerOwner {
    /// Returns the kind of owner, for log lines.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Session(_) => "session",
            Self::Log(_) => "log",
            Self::Reminder(_) => "reminder",
            Self::Sleep => "sleep",
        }
    }

    pub(crate) fn key(self) -> Option<OwnerKey> {
        match self {
            Self::Log(key) | Self::Reminder(key) => Some(key),
            Self::Session(_) | Self::Sleep => None,
        }
    }
}

/// Key of an owner in a [`TimerOwners`](crate::TimerOwners) table. It finds nothing after the owner's removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerKey {
    pub(crate) slot: u32,
    /// Number of the insertion. Its remainder selects the shard; the whole number distinguishes successive
    /// owners of one slot.
    ///
    /// It wraps after 2^32 insertions. A key that old may find a different owner, which would check its
    /// deadlines needlessly.
    pub(crate) generation: u32,
}
