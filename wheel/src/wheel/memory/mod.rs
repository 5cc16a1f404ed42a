//! Paged memory of a wheel. Empty pages are freed.
//!
//! This is the only module of the crate with unsafe code.

#![allow(unsafe_code, reason = "values and pages without the discriminant of an Option, and prefetching")]

mod in_order;
mod layout;
mod owners;
mod pool;
mod prefetch;
mod room;

pub(super) use in_order::sort_by_tick;
pub(super) use layout::{Interleaved, Separate, ValueLayout};
#[cfg(test)]
pub(super) use owners::OWNERS_PER_PAGE;
pub(super) use owners::{OwnerMemory, Record, entry};
pub(super) use pool::{Pool, PoolPage};
pub(super) use prefetch::prefetch;
