//! The clock of Encke's server, and all of its timeouts: one timing wheel, owned by one thread, and
//! the workers that handle expired timers.
//!
//! ```text
//!   timer owners             timers to arm (crossbeam, unbounded, each timer at most once)
//!   sessions, logs, ... ──────────────────────────▶  wheel thread  ──▶ batches (crossbeam, bounded)  ──▶  workers
//! ```
//!
//! A request for a later deadline involves no other thread: the wheel reads it when the timer fires. Only a
//! request for an earlier deadline sends the timer to the wheel thread, and only a deadline before the
//! planned wake-up wakes that thread.
//!
//! A session's timer is stored in a table and addressed by the session's slot ([`Timer`]). Every other timer
//! contains a small key that identifies its owner ([`TimerOwner`]). The workers pass either of these to the
//! [`ExpiryHandler`]. This crate does not know the owners' types.

#![deny(missing_docs)]
#![allow(clippy::disallowed_types, reason = "while a lock of this crate is held, no other lock is taken")]

mod abort_on_panic;
mod arming;
mod chunks;
pub mod clock;
mod dispatch_watch;
mod hyper_timer;
mod owners;
mod poll_expiry;
mod ring_stats;
mod ring_watch;
mod scheme;
mod sleep;
mod slot_timers;
mod standalone_timers;
#[cfg(feature = "simulation")]
mod stepped;
mod sync;
mod tick_length;
mod timeouts;
mod timer;
mod timer_cell;
mod timer_owner;
mod wheel_loop;
mod wheel_settings;
mod wheel_sleep;
mod wheel_stats;
mod wheel_thread;
mod workers;

pub use abort_on_panic::AbortOnPanic;
pub use arming::{ArmAction, RequestedDeadline};
pub use chunks::Chunks;
pub use dispatch_watch::{DISPATCH_BATCHES, MAX_WORKERS};
pub use hyper_timer::WheelTimer;
pub use owners::TimerOwners;
pub use ring_stats::{RingView, Rings};
pub use ring_watch::RingWatch;
pub use scheme::TimerScheme;
pub use sleep::Sleep;
#[cfg(feature = "simulation")]
pub use stepped::SteppedWheel;
pub use timeouts::{Stalled, Timeouts};
pub use timer::{Timer, TimerRef};
pub use timer_cell::TimerCell;
pub use timer_owner::{OwnerKey, TimerOwner};
pub use wheel_settings::WheelSettings;
pub use wheel_stats::WheelStats;
pub use wheel_thread::WheelThread;
pub use workers::{ExpiryBatch, ExpiryHandler, ExpiryWorker, WorkerPool};

#[cfg(test)]
mod ring_tests;
#[cfg(test)]
mod stepped_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod turn_tests;
