//! Primitives that `arming.rs`, `wheel_sleep.rs` and `poll_expiry.rs` are built on. The loom test replaces
//! them with loom's.

pub(super) use atomic_waker::AtomicWaker;
pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};
