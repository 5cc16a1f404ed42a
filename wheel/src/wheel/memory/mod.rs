//! Paged memory of a wheel. Empty pages are freed.
//!
//! This is the only module of the crate with unsafe code.

#![allow(unsafe_code, reason = "values and pages without the discriminant of an Option, and prefetching")]

mod layout;
mod owner_memory;
mod page_bitmap;
mod pool;
mod prefetch;
mod sort_by_tick;

pub(super) use layout::{Interleaved, Separate, ValueLayout};
#[cfg(test)]
pub(super) use owner_memory::OWNERS_PER_PAGE;
pub(super) use owner_memory::{OwnerMemory, Record, entry};
pub(super) use pool::{Pool, PoolPage};
pub(super) use prefetch::prefetch;
pub(super) use sort_by_tick::sort_by_tick;
