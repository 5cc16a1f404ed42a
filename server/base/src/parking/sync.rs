//! Atomics for `handover.rs`. The test `loom` replaces them with loom's.

pub(super) use std::sync::atomic::{AtomicU32, Ordering};
