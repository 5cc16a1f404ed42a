//! Simulates sessions that move between nodes: the state machines of [`encke_core::ownership`] with a model of the
//! directory, and with nodes, a network and clients that fail. Every schedule has a seed.
//!
//! Invariants, which are checked at every step:
//!
//! - A session ends exactly once, with at most one event, and only after its client has closed it or has been
//!   without a node for the reconnect window.
//! - A node serves a client only if no other node owns the session in a later term, unless the session was taken from
//!   the node because it did not answer.
//! - A client receives every message once and in order, or learns which ones it may have missed. Half of the clients
//!   know their positions; for the others, the node journals each batch before it sends the batch.
//!
//! After the faults, every session ends within the lease, the reconnect window, and a few seconds.

mod bug;
mod counts;
pub mod directory;
mod node;
mod schedule;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub use bug::Bug;
pub use counts::{Counts, Violation};
pub use schedule::Millis;
pub use world::World;

/// Runs the schedules of `count` seeds. Returns the first seed that is found to fail.
pub fn campaign(from: u64, count: u64, jobs: usize, bug: Option<Bug>) -> (Counts, Option<u64>) {
    let (next, stop) = (AtomicU64::new(from), AtomicBool::new(false));
    let result = Mutex::new((Counts::default(), None));
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                let (mut counts, mut failed) = (Counts::default(), None);
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from.saturating_add(count) {
                        break;
                    }
                    let mut world = World::new(seed, bug, false);
                    if world.run().is_err() {
                        failed = Some(seed);
                        stop.store(true, Ordering::Relaxed);
                    }
                    counts.add(&world.counts);
                }
                let mut result = result.lock().expect("no thread panics");
                result.0.add(&counts);
                result.1 = result.1.or(failed);
            });
        }
    });
    result.into_inner().expect("no thread panics")
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn invariants_hold() {
        let (counts, failed) = campaign(encke_seeds::seed(), 2_000, 2, None);
        assert_eq!(failed, None, "a seed fails: run it with --seed");
        let Counts { resumed_elsewhere, adopted, taken, claimed_back, fenced, .. } = counts;
        assert!(
            [resumed_elsewhere, adopted, taken, claimed_back, fenced].iter().all(|it| *it > 0),
            "{counts:?}"
        );
    }

    #[test]
    fn every_bug_is_found() {
        for &bug in Bug::value_variants() {
            let (_, failed) = campaign(1, 20_000, 2, Some(bug));
            assert!(failed.is_some(), "{bug:?}");
        }
    }
}
