//! Tests the ring occupancy that the wheel publishes to a watcher, for every scheme and in simulated time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use crossbeam_channel::Receiver;
use encke_wheel::Tick;

use super::clock::{Clock, SimulatedTime, UnixTime, nanos};
use super::tests::{SETTINGS, SLACK, after, new_timer};
use super::*;

struct SteppedRig {
    time: Arc<SimulatedTime>,
    timeouts: Arc<Timeouts>,
    wheel: SteppedWheel,
    /// Receiver of the batches, kept so that the channel stays open. No worker receives from it.
    _batches: Receiver<ExpiryBatch>,
}

impl SteppedRig {
    fn new(scheme: TimerScheme) -> Self {
        let time = Arc::new(SimulatedTime::new(UnixTime::from_secs(0)));
        let clock = Arc::new(Clock::simulated(Arc::clone(&time), SETTINGS.stall_threshold));
        let (timeouts, to_arm) = Timeouts::new(clock, SLACK, 0);
        let (sender, batches) = crossbeam_channel::unbounded();
        let settings = WheelSettings { scheme, ..SETTINGS };
        let shared = Arc::clone(&timeouts);
        let wheel = SteppedWheel::new(settings, shared, to_arm, sender, Waker::noop().clone());
        Self { time, timeouts, wheel, _batches: batches }
    }

    /// Runs one turn, then advances the time by the longest possible sleep.
    fn turn(&mut self) {
        self.wheel.turn();
        self.time.advance(SETTINGS.longest_sleep());
    }

    fn last_turn(&self) -> Tick {
        let now = self.timeouts.clock().now().as_nanos() - nanos(SETTINGS.longest_sleep());
        Tick(now / nanos(SETTINGS.tick))
    }

    fn watch(&self) -> RingWatch {
        RingWatch::new(Arc::clone(&self.timeouts))
    }

    fn arm(&self, ms: u64) -> Arc<TimerCell> {
        let timer = new_timer();
        let now = self.timeouts.clock().now();
        self.timeouts.arm(&timer, RequestedDeadline::exact(after(now, ms)));
        timer
    }
}

#[test]
fn rings_are_written_only_while_watched() {
    for scheme in TimerScheme::ALL {
        let mut stepped = SteppedRig::new(scheme);
        let _timers = [1_000, 1_001, 100_000].map(|ms| stepped.arm(ms));
        stepped.turn();
        let watch = stepped.watch();
        assert_eq!(watch.rings(), None, "{scheme}: written before the watch began");
        stepped.turn();
        let first = watch.rings().expect("the wheel has turned");
        assert_eq!(first.tick, stepped.last_turn(), "{scheme}");

        stepped.turn();
        let other = stepped.watch();
        drop(watch);
        stepped.turn();
        assert_eq!(other.rings().map(|rings| rings.tick), Some(stepped.last_turn()), "one watch is left");
        drop(other);
        stepped.turn();
        let late = stepped.watch();
        assert_eq!(late.rings(), None);
        assert_eq!(stepped.timeouts.stats.rings.written(), 3, "{scheme}: the last turn was not watched");
    }
}

#[test]
fn slots_show_their_timers() {
    let mut stepped = SteppedRig::new(TimerScheme::Hierarchical);
    let _timers = [1_000, 1_000, 100_000].map(|ms| stepped.arm(ms));
    let watch = stepped.watch();
    stepped.turn();
    let rings = watch.rings().expect("the wheel has turned");
    let ring = |level: u32, occupied: serde_json::Value| {
        let slot_ticks = 256_u64.pow(level);
        let hand = rings.tick.0 / slot_ticks % 256;
        serde_json::json!({"slots": 256, "slot_ticks": slot_ticks, "hand": hand, "counted": true, "occupied": occupied})
    };
    let slot = |ms: u64, level: u32| (rings.tick.0 + ms) / 256_u64.pow(level) % 256;
    let expected = serde_json::json!([
        ring(0, serde_json::json!([])),
        ring(1, serde_json::json!([[slot(1_000, 1), 2]])),
        ring(2, serde_json::json!([[slot(100_000, 2), 1]])),
    ]);
    let shown = serde_json::to_value(&rings.rings).expect("JSON");
    assert_eq!(shown.as_array().map(Vec::len), Some(8));
    assert_eq!(shown.as_array().map(|rings| &rings[..3]), expected.as_array().map(Vec::as_slice));
    for _ in 0..3 {
        stepped.turn();
    }
    let levels: Vec<usize> =
        stepped.timeouts.stats.occupancy().iter().map(|level| level.load(Ordering::Relaxed)).collect();
    let held: Vec<usize> =
        watch.rings().expect("the wheel has turned").rings.iter().map(RingView::held).collect();
    assert_eq!(held, levels, "the rings match the levels");
}

#[test]
fn each_scheme_has_its_documented_rings() {
    let expected = |scheme: TimerScheme| match scheme {
        TimerScheme::Hierarchical | TimerScheme::HierarchicalLists | TimerScheme::OneMigration => 8,
        TimerScheme::Coarse => 21,
        TimerScheme::Simple
        | TimerScheme::HashedSorted
        | TimerScheme::HashedUnsorted
        | TimerScheme::LogicSimulation => 1,
        TimerScheme::CalendarQueue
        | TimerScheme::BinaryHeap
        | TimerScheme::BalancedTree
        | TimerScheme::OrderedList
        | TimerScheme::UnorderedList
        | TimerScheme::Lawn => 0,
    };
    for scheme in TimerScheme::ALL {
        let mut stepped = SteppedRig::new(scheme);
        let _timer = stepped.arm(10_000);
        let watch = stepped.watch();
        stepped.turn();
        let rings = watch.rings().expect("the wheel has turned").rings;
        assert_eq!(rings.len(), expected(scheme), "{scheme}");
        let lit: usize = rings.iter().map(RingView::held).sum();
        // Logic simulation keeps the timer in the overflow list for later cycles.
        let is_seen = !rings.is_empty() && scheme != TimerScheme::LogicSimulation;
        assert_eq!(lit, usize::from(is_seen), "{scheme}: the timer appears once");
    }
}
