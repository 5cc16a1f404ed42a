//! Atomics used by `slot_state.rs`. The loom test replaces them with loom's.

pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};
