//! Occupancy of the wheel's slot rings, published only while it is watched.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use encke_wheel::{ReusableTimers, SlotRing, Tick};
use serde::Serialize;

/// Ring occupancy as written by the wheel thread, which scans its rings only while they are watched.
#[derive(Debug, Default)]
pub(crate) struct RingStats {
    watchers: AtomicUsize,
    /// Set when the wheel is created. Empty if the scheme has no rings.
    rings: OnceLock<Box<[RingStat]>>,
    /// Tick at which the rings were last written.
    tick: AtomicU64,
    /// Number of times the rings were written.
    written: AtomicU64,
}

/// State of one ring, as published by the wheel thread.
#[derive(Debug)]
struct RingStat {
    slot_ticks: u64,
    counted: bool,
    hand: AtomicUsize,
    counts: Box<[AtomicU32]>,
}

impl RingStats {
    pub(crate) fn set_rings<T>(&self, wheel: &impl ReusableTimers<T>) {
        let mut held = [0; SlotRing::MAX_SLOTS];
        let rings = (0..).map_while(|number| wheel.ring(number, &mut held)).map(|ring| RingStat {
            slot_ticks: ring.slot_ticks,
            counted: ring.has_counts,
            hand: AtomicUsize::new(ring.hand),
            counts: (0..ring.slots).map(|_| AtomicU32::new(0)).collect(),
        });
        self.rings.get_or_init(|| rings.collect());
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watchers.load(Ordering::Relaxed) > 0
    }

    /// Adds a watcher. Returns how many times the rings have been written.
    pub(crate) fn add_watcher(&self) -> u64 {
        self.watchers.fetch_add(1, Ordering::Relaxed);
        self.written()
    }

    pub(crate) fn remove_watcher(&self) {
        self.watchers.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Returns the rings if they were written more than `written` times.
    pub(crate) fn read_after(&self, written: u64) -> Option<Rings> {
        if self.written() == written {
            return None;
        }
        let rings = self.rings.get().into_iter().flatten().map(RingStat::view).collect();
        Some(Rings { tick: Tick(self.tick.load(Ordering::Relaxed)), rings })
    }

    /// Writes the occupancy. Called by the wheel thread.
    pub(crate) fn write<T>(&self, wheel: &impl ReusableTimers<T>) {
        let mut held = [0; SlotRing::MAX_SLOTS];
        for (number, shown) in self.rings.get().into_iter().flatten().enumerate() {
            let Some(ring) = wheel.ring(number, &mut held) else { continue };
            shown.hand.store(ring.hand, Ordering::Relaxed);
            for (shown, held) in shown.counts.iter().zip(held) {
                shown.store(held, Ordering::Relaxed);
            }
        }
        self.tick.store(wheel.now().0, Ordering::Relaxed);
        self.written.fetch_add(1, Ordering::Release);
    }
}

/// Recent snapshot of the slot rings. Empty if the scheme has no rings.
#[derive(Debug, PartialEq)]
pub struct Rings {
    /// Tick at which the snapshot was taken.
    pub tick: Tick,
    /// The rings, finest first.
    pub rings: Vec<RingView>,
}

/// One slot ring.
#[derive(Debug, PartialEq, Serialize)]
pub struct RingView {
    slots: usize,
    slot_ticks: u64,
    /// Index of the current tick's slot.
    hand: usize,
    /// Whether the timers in each slot are counted. If not, slots are only occupied or empty.
    counted: bool,
    /// Occupied slots, each with its number of timers, or 1 if timers are not counted.
    occupied: Vec<(usize, u32)>,
}

#[cfg(test)]
impl RingView {
    pub(crate) fn held(&self) -> usize {
        self.occupied.iter().map(|(_, held)| *held as usize).sum()
    }
}

impl RingStat {
    fn view(&self) -> RingView {
        let held = self.counts.iter().map(|held| held.load(Ordering::Relaxed)).enumerate();
        RingView {
            slots: self.counts.len(),
            slot_ticks: self.slot_ticks,
            hand: self.hand.load(Ordering::Relaxed),
            counted: self.counted,
            occupied: held.filter(|(_, held)| *held > 0).collect(),
        }
    }
}
