//! Primitives that `arming.rs`, `wheel_sleep.rs` and `poll_expiry.rs` are built on. The loom test replaces
//! them with loom's.

pub(crate) use atomic_waker::AtomicWaker;
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
