//! The tasks that wait for a [`super::Sleep`]. Timers know them by number, so none keeps a task or its socket alive.

use std::task::Waker;

use parking_lot::Mutex;
use slab::Slab;

/// One sleeping task. A number is used again when its sleep is over: a firing that comes later than that wakes
/// another for nothing, which is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SleeperId(u32);

#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    /// `None` after it was woken.
    wakers: Mutex<Slab<Option<Waker>>>,
}

impl Sleepers {
    pub(crate) fn add(&self, waker: &Waker) -> SleeperId {
        let index = self.wakers.lock().insert(Some(waker.clone()));
        SleeperId(u32::try_from(index).expect("fewer sleeping tasks than 2^32"))
    }

    /// The task may have moved to another waker since.
    pub(crate) fn refresh(&self, id: SleeperId, waker: &Waker) {
        let mut waker = Some(waker.clone());
        std::mem::swap(&mut self.wakers.lock()[id.0 as usize], &mut waker);
        // The old waker is dropped here, outside the lock: its drop is someone else's code.
        drop(waker);
    }

    pub(crate) fn remove(&self, id: SleeperId) {
        let waker = self.wakers.lock().remove(id.0 as usize);
        drop(waker);
    }

    /// The task that is to be woken, unless it was already.
    pub(crate) fn take_waker(&self, id: SleeperId) -> Option<Waker> {
        self.wakers.lock().get_mut(id.0 as usize).and_then(Option::take)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.wakers.lock().is_empty()
    }
}
