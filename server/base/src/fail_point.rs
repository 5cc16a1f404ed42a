//! Panics that tests plant in the code.

use std::cell::Cell;

/// A place where a panic can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailPoint {
    /// A change of a session, almost complete.
    SessionChange,
    /// An append of a message to several logs, when only some of them contain it.
    Append,
}

thread_local! {
    static PLANTED: Cell<Option<FailPoint>> = const { Cell::new(None) };
}

/// Makes this thread panic when it next reaches this place.
pub fn plant(place: FailPoint) {
    PLANTED.set(Some(place));
}

/// Whether this thread has a planted panic that has not happened yet.
pub fn is_planted() -> bool {
    PLANTED.get().is_some()
}

/// Panics if a panic is planted at this place.
pub fn reach(place: FailPoint) {
    if PLANTED.get() == Some(place) {
        PLANTED.set(None);
        panic!("planted by a test");
    }
}
