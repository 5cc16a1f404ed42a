//! Primitives for models, which replace those of the files under test.

use std::sync::Arc as StdArc;
use std::task::{Wake, Waker};

pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// Provides the guarantees of `atomic_waker::AtomicWaker` with a lock: waking takes the task registered last,
/// and the next registration sees everything that the waking thread did before.
#[derive(Default)]
pub(crate) struct AtomicWaker(loom::sync::Mutex<Option<Waker>>);

impl AtomicWaker {
    pub(crate) fn register(&self, waker: &Waker) {
        *self.0.lock().expect("no panic") = Some(waker.clone());
    }

    pub(crate) fn take(&self) -> Option<Waker> {
        self.0.lock().expect("no panic").take()
    }
}

/// Waker that records whether it was called.
pub(crate) struct WakeFlag(AtomicBool);

impl WakeFlag {
    pub(crate) fn new() -> StdArc<Self> {
        StdArc::new(Self(AtomicBool::new(false)))
    }

    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}

impl Wake for WakeFlag {
    fn wake(self: StdArc<Self>) {
        // Swap instead of storing: loom could order a store before an earlier swap that did not see it.
        self.0.swap(true, Ordering::AcqRel);
    }
}
