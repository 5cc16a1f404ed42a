//! The wheel's rings of slots, while somebody watches.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use encke_wheel::{Ring, StandingTimers, Tick};
use serde::Serialize;

use super::Timeouts;

/// What the wheel thread says of its rings: it looks at them only while somebody [watches](RingWatch).
#[derive(Debug, Default)]
pub(crate) struct RingStats {
    watchers: AtomicUsize,
    /// Set once there is a wheel: none, if its scheme has none.
    rings: OnceLock<Box<[RingStat]>>,
    /// Where the wheel stood when they were written last.
    tick: AtomicU64,
    /// How often they were written.
    written: AtomicU64,
}

/// One ring, the finest first.
#[derive(Debug)]
struct RingStat {
    slot_ticks: u64,
    counted: bool,
    hand: AtomicUsize,
    held: Box<[AtomicU32]>,
}

impl RingStats {
    pub(super) fn has_rings<T>(&self, wheel: &impl StandingTimers<T>) {
        let mut held = [0; Ring::MOST_SLOTS];
        let rings = (0..).map_while(|number| wheel.ring(number, &mut held)).map(|ring| RingStat {
            slot_ticks: ring.slot_ticks,
            counted: ring.counted,
            hand: AtomicUsize::new(ring.hand),
            held: (0..ring.slots).map(|_| AtomicU32::new(0)).collect(),
        });
        self.rings.get_or_init(|| rings.collect());
    }

    pub(super) fn is_watched(&self) -> bool {
        self.watchers.load(Ordering::Relaxed) > 0
    }

    #[cfg(test)]
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// For the wheel thread.
    pub(super) fn write<T>(&self, wheel: &impl StandingTimers<T>) {
        let mut held = [0; Ring::MOST_SLOTS];
        for (number, shown) in self.rings.get().into_iter().flatten().enumerate() {
            let Some(ring) = wheel.ring(number, &mut held) else { continue };
            shown.hand.store(ring.hand, Ordering::Relaxed);
            for (shown, held) in shown.held.iter().zip(held) {
                shown.store(held, Ordering::Relaxed);
            }
        }
        self.tick.store(wheel.now().0, Ordering::Relaxed);
        self.written.fetch_add(1, Ordering::Release);
    }
}

/// Whoever has this watches the wheel.
#[derive(Debug)]
pub(crate) struct RingWatch {
    timeouts: Arc<Timeouts>,
    /// How often the rings had been written when it began.
    written: u64,
}

/// The rings of slots, the finest first, as they were a moment ago. None, if the scheme has none.
#[derive(Debug, PartialEq)]
pub(crate) struct Rings {
    /// Where the wheel stood then.
    pub(crate) tick: Tick,
    pub(crate) rings: Vec<RingView>,
}

/// A ring of slots.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct RingView {
    slots: usize,
    slot_ticks: u64,
    /// The slot of the present tick.
    hand: usize,
    /// Whether timers are counted, or it is only known which slots hold some.
    counted: bool,
    /// The slots that hold something, and how many timers: 1 where they are not counted.
    lit: Vec<(usize, u32)>,
}

impl RingWatch {
    pub(super) fn new(timeouts: Arc<Timeouts>) -> Self {
        let rings = &timeouts.stats.rings;
        rings.watchers.fetch_add(1, Ordering::Relaxed);
        let written = rings.written.load(Ordering::Relaxed);
        Self { timeouts, written }
    }

    /// The rings, as soon as the wheel thread has written them since this watch began: it does so a few times a second. They are
    /// written without a lock, so some may be of that moment and others of the one before.
    pub(crate) fn rings(&self) -> Option<Rings> {
        let stats = &self.timeouts.stats.rings;
        if stats.written.load(Ordering::Acquire) == self.written {
            return None;
        }
        let rings = stats.rings.get().into_iter().flatten().map(RingStat::view).collect();
        Some(Rings { tick: Tick(stats.tick.load(Ordering::Relaxed)), rings })
    }
}

impl Drop for RingWatch {
    fn drop(&mut self) {
        self.timeouts.stats.rings.watchers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
impl RingView {
    pub(super) fn held(&self) -> usize {
        self.lit.iter().map(|(_, held)| *held as usize).sum()
    }
}

impl RingStat {
    fn view(&self) -> RingView {
        let held = self.held.iter().map(|held| held.load(Ordering::Relaxed)).enumerate();
        RingView {
            slots: self.held.len(),
            slot_ticks: self.slot_ticks,
            hand: self.hand.load(Ordering::Relaxed),
            counted: self.counted,
            lit: held.filter(|(_, held)| *held > 0).collect(),
        }
    }
}
