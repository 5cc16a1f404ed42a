//! A hierarchical timing wheel: very many timers, each set, moved and cancelled in constant time.
//!
//! # Why another one
//!
//! A server with a hundred thousand sessions has as many timeouts, of which nearly all are put off or
//! cancelled before they pass. A sorted structure pays for an order that is never used. A timing wheel sorts
//! a timer only as it draws near. This one keeps to what a server needs and many wheels leave out:
//!
//! - **Time comes from outside.** No clock, no thread, no callback: the caller says which tick it is and
//!   takes what is due, one timer at a time. A test can live through a year in no time.
//! - **Never early, in order, complete.** Driven to a tick, the wheel gives out everything due up to it, all
//!   of one tick before any of the next.
//! - **A budget.** [`Work`] bounds what one advance does, whether timers expire or only move within the
//!   wheel. It may stop anywhere, and the wheel may be changed at any point between.
//! - **The whole of `u64`.** There is no horizon, no largest delay, and no cost for time in which nothing
//!   happens.
//! - **Ranges.** A timer that need not be exact ([`schedule_within`](TimingWheel::schedule_within)) is put
//!   where it costs least.
//!
//! # How it works
//!
//! It is Scheme 7 of G. Varghese and A. Lauck, *Hashed and Hierarchical Timing Wheels* (SOSP 1987; IEEE/ACM
//! Transactions on Networking 5(6), 1997), with the range scheduling and the bounded advance of J. Snellman's
//! Ratas (2016).
//!
//! There are eight levels of 256 slots. A slot of the first level is one tick, a slot of each further level
//! one turn of the level below. A timer goes to the lowest level on which its slot is less than a turn ahead.
//! When the wheel comes to the first tick of a slot, the timers in it either are due or *cascade*: each moves
//! to a lower level, which it can do seven times at most.
//!
//! ```text
//!  now = 1000      level 0: 256 slots of 1 tick           1001 ..= 1255
//!                  level 1: 256 slots of 256 ticks        1256 .. 66_304,  in slots 4*256.., 5*256.., ...
//!                  level 2: 256 slots of 65_536 ticks   66_304 .. 16_777_216
//!                  ...
//! ```
//!
//! A slot is a *line*: the 14 indices of timers that fit into a cache line with their number and where there are more. A full line is
//! copied whole into a pool, and back when the slot has been emptied that far. So a few timers need nothing but the slot, many are
//! read in order, and what will be needed next is known in time to be fetched: there is no list of nodes, of which each tells only where
//! the next one is.
//!
//! A timer that is put off stays where it is. When the wheel comes to it there, it moves to where it belongs by then. So
//! putting off, which is what becomes of most timeouts, is one store, however often.
//!
//! Each level has a bitmap of the slots that are not empty, so the wheel goes from one such slot to the next
//! and never visits the others. Eight levels rather than the usual four cost 64 KiB more, and spare the
//! list of what lies beyond the horizon.
//!
//! That the wheel stopped halfway needs no extra state: a slot whose first tick is the present one, and which
//! is not empty, is what remains to be done. Nothing can be added to it, because what is scheduled now is due
//! at the next tick at the earliest. For the same reason taking what is due at one tick comes to an end even
//! if every expiry schedules another timer at once.
//!
//! # Timers that stay
//!
//! [`TimingWheel`] has timers for once: each carries its value out when it expires. Most timeouts are not like that: a session sets
//! the same few again and again, and whoever handles one has to find the session first. [`Owners`] keeps the sessions themselves, each
//! with `K` timers of its own, and lends the whole owner when one of them expires. Nothing is put in, taken out or looked up in
//! between. `TimingWheel` is made of owners that have one timer, and go when it expires.
//!
//! [`StandingTimers`] is what owners with one timer have in common with standing timers by any other scheme.
//!
//! # Memory
//!
//! ```text
//!  slot: 14 entries, len, next ──▶ spilled line: 14 entries, len, next ──▶ ...      64 bytes each
//!            │
//!            ▼ entry: which owner, which of its timers
//!          K deadlines, K states, generation, value        12 bytes a timer, and 4
//! ```
//!
//! A timer that is cancelled or moved leaves its entry behind: what stands in a slot counts if the *state* of the timer it names says
//! that it stands there. So a slot need neither be read nor written then. When such holes are half as many as the owners' pages have
//! room for timers, calls look through as many lines as an owner has timers, or as there are new holes, and take out what does not
//! count.
//!
//! Owners, and spilled lines, come in pages, of which the lowest with room is filled first; pages that run empty are given
//! back, but for a few to spare. No timer is ever copied to grow. All in all it is 21 to 23 bytes a timer, its value, and 136 KiB for the
//! slots.
//!
//! # How to use it
//!
//! ```
//! use encke_wheel::{Expire, Tick, TimingWheel, Work};
//!
//! let mut wheel = TimingWheel::new(Tick(1000));
//! let ping = wheel.schedule(Tick(1025), "ping");
//! let idle = wheel.schedule(Tick(1060), "idle");
//! let slack = wheel.schedule_within(Tick(1270)..=Tick(1290), "statistics");
//!
//! // Something was heard from the peer: both are put off or dropped.
//! assert!(wheel.reschedule(ping, Tick(1050)));
//! assert_eq!(wheel.cancel(idle), Some("idle"));
//! assert_eq!(wheel.cancel(idle), None, "the key is stale by now");
//!
//! // Sleep until the wheel has something to do, but no longer than until 2000.
//! assert_eq!(wheel.next_wakeup(Tick(2000)), Some(Tick(1025)), "where the ping was before it was put off");
//!
//! // Then take what is due, at most 64 timers at a time.
//! let mut work = Work::new(64);
//! let mut due = Vec::new();
//! while let Expire::Due(expired) = wheel.expire_next(Tick(1050), &mut work) {
//!     due.push((expired.deadline, expired.value));
//! }
//! assert_eq!(due, [(Tick(1050), "ping")]);
//!
//! // 1280 begins a slot of level 1, so this timer will expire without ever having moved.
//! assert_eq!(wheel.deadline(slack), Some(Tick(1280)));
//! ```
#![no_std]
// Says which feature an item needs. Only nightly can, which docs.rs has.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]
#![deny(missing_docs)]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;

mod expire;
mod key;
#[cfg(any(feature = "std", test))]
mod keyed;
mod queue;
mod range;
mod ring;
#[cfg(feature = "schemes")]
pub mod schemes;
mod standing;
#[cfg(test)]
mod tests;
mod tick;
mod wheel;
mod work;

pub use expire::{Expire, Expired};
pub use key::TimerKey;
#[cfg(any(feature = "std", test))]
pub use keyed::Keyed;
pub use queue::{BeyondHorizon, TimerQueue};
pub use ring::Ring;
pub use standing::StandingTimers;
pub use tick::Tick;
pub use wheel::{Due, LEVELS, Lent, OwnerMut, Owners, TimingWheel};
pub use work::Work;
