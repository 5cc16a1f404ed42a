//! A hierarchical timing wheel: sets, moves and cancels any number of timers, each in constant time.
//!
//! # Motivation
//!
//! A server with a hundred thousand sessions has at least as many timeouts, and nearly all of them are
//! postponed or cancelled before they expire. A sorted structure pays for an order that is never used. A
//! timing wheel sorts a timer only as its deadline approaches. This wheel provides what servers need and many
//! wheels lack:
//!
//! - **Time is an argument.** The wheel has no clock, no thread and no callbacks. The caller passes the
//!   current tick and receives the timers that are due, one at a time. A test can run through a year in an
//!   instant.
//! - **Never early, ordered, complete.** Driven to a tick, the wheel returns every timer due up to that tick,
//!   and all timers of one tick before any of the next.
//! - **Bounded work.** A [`WorkBudget`] limits how many timers one advance touches, whether they expire or
//!   only move within the wheel. The wheel can stop at any point, and can be changed while it is stopped.
//! - **All of `u64`.** There is no horizon and no maximum delay. Time without timers costs nothing.
//! - **Ranges.** A timer that need not be exact ([`schedule_within`](TimingWheel::schedule_within)) goes to
//!   the cheapest slot in its range.
//!
//! # Design
//!
//! The wheel is Scheme 7 of G. Varghese and A. Lauck, *Hashed and Hierarchical Timing Wheels* (SOSP 1987;
//! IEEE/ACM Transactions on Networking 5(6), 1997), with the range scheduling and the bounded advance of J.
//! Snellman's Ratas (2016).
//!
//! There are eight levels of 256 slots. A slot of the lowest level lasts one tick; a slot of each higher
//! level lasts one full revolution of the level below. A timer goes to the lowest level on which its slot is
//! less than one revolution ahead. When the wheel reaches the first tick of a slot, each timer in the slot is
//! either due or *cascades* to a lower level. A timer cascades at most seven times.
//!
//! ```text
//!  now = 1000      level 0: 256 slots of 1 tick           1001 ..= 1255
//!                  level 1: 256 slots of 256 ticks        1256 .. 66_304,  in slots 4*256.., 5*256.., ...
//!                  level 2: 256 slots of 65_536 ticks   66_304 .. 16_777_216
//!                  ...
//! ```
//!
//! A slot is a *line*: one cache line that holds the indices of 14 timers, their number, and a link to more
//! lines. A full line is copied as a whole into a pool, and copied back when the lines added after it have
//! been emptied. A few timers therefore need only the slot itself, many timers are read sequentially, and the
//! wheel can prefetch what it needs next. A linked list does not allow this: each node reveals only the
//! location of the next node.
//!
//! A postponed timer stays in its slot. When the wheel reaches that slot, the timer moves to the slot of its
//! new deadline. Postponing, the fate of most timeouts, is therefore a single store, however often it
//! happens.
//!
//! Each level has a bitmap of its occupied slots, so the wheel skips empty slots. Eight levels instead of the
//! usual four cost 64 KiB more and make an overflow list unnecessary.
//!
//! Stopping halfway needs no extra state: the timers left in the slot of the current tick are the remaining
//! work. No timer can join them, because a timer scheduled now is due at the next tick at the earliest. For
//! the same reason, draining one tick terminates even if every expiry schedules another timer.
//!
//! # Reusable timers
//!
//! The timers of [`TimingWheel`] are one-shot: each carries its value out when it expires. Most timeouts are
//! different. A session sets the same few timers again and again, and the code that handles an expiry must
//! first find the session. [`Owners`] stores the sessions themselves, each with its own `K` timers, and
//! passes the session to the caller when one of its timers expires. Nothing is inserted, removed or looked up
//! in between. `TimingWheel` is built from owners with a single timer that are removed when it expires.
//!
//! [`ReusableTimers`] is the common interface of owners with one timer and of reusable timers on top of any
//! other scheme.
//!
//! # Memory
//!
//! ```text
//!  slot: 14 entries, len, next ──▶ spilled line: 14 entries, len, next ──▶ ...      64 bytes each
//!            │
//!            ▼ entry: index of the owner, index of its timer
//!          K deadlines, K states, generation, value        12 bytes a timer, and 4
//! ```
//!
//! Cancelling or moving a timer leaves its entry behind: an entry is valid only if the *state* of its timer
//! names the slot that holds the entry. Cancelling therefore neither reads nor writes the slot. Invalid
//! entries are called holes. When there are more holes than half the number of timers that the allocated
//! pages can hold, calls start to sweep: each call visits as many lines as an owner has timers, or as holes
//! have been added, and removes the holes in them.
//!
//! Owners and spilled lines are stored in pages. The lowest page with free space is filled first, and empty
//! pages are freed except for a few spares. Growing never copies a timer. In total, a timer takes 21 to 23
//! bytes plus its value; the slots take 136 KiB.
//!
//! # Example
//!
//! ```
//! use encke_wheel::{Expiry, Tick, TimingWheel, WorkBudget};
//!
//! let mut wheel = TimingWheel::new(Tick(1000));
//! let ping = wheel.schedule(Tick(1025), "ping");
//! let idle = wheel.schedule(Tick(1060), "idle");
//! let slack = wheel.schedule_within(Tick(1270)..=Tick(1290), "statistics");
//!
//! // The peer sent something: postpone one timer, cancel the other.
//! assert!(wheel.reschedule(ping, Tick(1050)));
//! assert_eq!(wheel.cancel(idle), Some("idle"));
//! assert_eq!(wheel.cancel(idle), None, "the key is stale");
//!
//! // Sleep until the wheel has something to do, but no longer than until 2000.
//! assert_eq!(wheel.next_wakeup(Tick(2000)), Some(Tick(1025)), "the deadline before it was postponed");
//!
//! // Take the timers that are due, touching at most 64 timers.
//! let mut work = WorkBudget::new(64);
//! let mut due = Vec::new();
//! while let Expiry::Due(expired) = wheel.expire_next(Tick(1050), &mut work) {
//!     due.push((expired.deadline, expired.value));
//! }
//! assert_eq!(due, [(Tick(1050), "ping")]);
//!
//! // 1280 is the first tick of a slot of level 1, so this timer expires without cascading.
//! assert_eq!(wheel.deadline(slack), Some(Tick(1280)));
//! ```
#![no_std]
// Show on docs.rs which feature an item needs. This requires nightly, which docs.rs uses.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]
#![deny(missing_docs)]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;

mod expiry;
mod key;
#[cfg(any(feature = "std", test))]
mod keyed;
mod queue;
mod range;
mod reusable;
#[cfg(feature = "schemes")]
pub mod schemes;
mod slot_ring;
#[cfg(test)]
mod tests;
mod tick;
mod wheel;
mod work_budget;

pub use expiry::{Expired, Expiry};
pub use key::TimerKey;
#[cfg(any(feature = "std", test))]
pub use keyed::Keyed;
pub use queue::{BeyondHorizon, TimerQueue};
pub use reusable::ReusableTimers;
pub use slot_ring::SlotRing;
pub use tick::Tick;
pub use wheel::{DueTimer, LEVELS, OwnerExpiry, OwnerMut, Owners, TimingWheel};
pub use work_budget::WorkBudget;
