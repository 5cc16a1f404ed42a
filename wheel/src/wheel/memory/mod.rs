//! The memory of a wheel, in pages that go when nothing is in them.
//!
//! This is the one module of the crate with unsafe code.

#![allow(
    unsafe_code,
    reason = "values without the discriminant of an Option, pages without one, and prefetching"
)]

mod in_order;
mod layout;
mod owners;
mod pool;
mod prefetch;
mod room;

pub(super) use in_order::put_in_order;
pub(super) use layout::{Apart, Beside, Layout};
#[cfg(test)]
pub(super) use owners::PAGE;
pub(super) use owners::{Owners, Record, entry};
pub(super) use pool::{Page, Pool};
pub(super) use prefetch::prefetch;
