use std::sync::Weak;

use encke_wheel::TimerKey;
use parking_lot::Mutex;

use super::arming::Arming;
use super::sleepers::SleeperId;
use crate::channel::Channel;
use crate::session::SessionCell;

/// Whose timeout it is. The wheel has at most one entry a name.
#[derive(Debug)]
pub(crate) enum TimerName {
    /// A session: all its deadlines, of which the wheel knows the earliest. Weak, so that no timer keeps one alive;
    /// and no id, because looking that up costs more than all else that a worker does for a ping.
    Session(Weak<SessionCell>),
    /// One of the server's other timeouts ([`super::Sleep`]).
    Sleep(SleeperId),
    /// The age of a channel's oldest message.
    Log(Weak<Channel>),
}

/// A name, and when it wants to expire. Owned by whatever has the name and by the wheel together.
#[derive(Debug)]
pub(crate) struct TimerCell {
    pub(crate) name: TimerName,
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
