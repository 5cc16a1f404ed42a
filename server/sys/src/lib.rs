//! Calls of the Linux kernel that no well-kept crate wraps safely: one small function each.

mod unacknowledged;

pub use unacknowledged::{Unacknowledged, unacknowledged};
