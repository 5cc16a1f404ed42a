use parking_lot::Mutex;

use encke_wheel::TimerKey;

use super::arming::Arming;
use super::sleepers::SleeperId;
use crate::session::SessionId;

/// Whose timeout it is. The wheel has at most one entry a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerName {
    /// A session: all its deadlines, of which the wheel knows the earliest.
    Session(SessionId),
    /// One of the server's other timeouts ([`super::Sleep`]).
    Sleep(SleeperId),
}

/// A name, and when it wants to expire. Owned by whatever has the name and by the wheel together.
#[derive(Debug)]
pub(crate) struct TimerCell {
    pub(super) name: TimerName,
    pub(super) arming: Arming,
    /// The wheel's entry. Only the wheel thread looks at it, so the lock is never waited for.
    pub(super) key: Mutex<Option<TimerKey>>,
}

impl TimerCell {
    /// A name that wants nothing yet.
    #[must_use]
    pub(crate) fn new(name: TimerName) -> Self {
        Self { name, arming: Arming::new(), key: Mutex::new(None) }
    }
}
