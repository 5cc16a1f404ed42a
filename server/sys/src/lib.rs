//! Calls of the Linux kernel and of the C library that no well-kept crate wraps safely: one small function each.

mod environment;
mod unacknowledged;

pub use environment::remove_variables;
pub use unacknowledged::{Unacknowledged, unacknowledged};
