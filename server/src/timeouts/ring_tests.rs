//! What those see who watch the wheel, on every scheme, in simulated time.

use encke_wheel::Tick;

use super::tests::{SETTINGS, SLACK, after, new_timer};
use super::*;
use crate::clock::{SimulatedTime, UnixTime};

struct Stepped {
    time: Arc<SimulatedTime>,
    timeouts: Arc<Timeouts>,
    wheel: SteppedWheel,
    /// Nobody works, and nothing may be lost.
    _batches: Receiver<Batch>,
}

impl Stepped {
    fn new(scheme: Scheme) -> Self {
        let time = Arc::new(SimulatedTime::new(UnixTime::from_secs(0)));
        let clock = Arc::new(Clock::simulated(Arc::clone(&time), SETTINGS.stall_threshold));
        let (timeouts, to_arm) = Timeouts::new(clock, SLACK, 0);
        let (sender, batches) = crossbeam_channel::unbounded();
        let settings = WheelSettings { scheme, ..SETTINGS };
        let shared = Arc::clone(&timeouts);
        let wheel = SteppedWheel::new(settings, shared, to_arm, sender, Waker::noop().clone());
        Self { time, timeouts, wheel, _batches: batches }
    }

    /// A turn, and the sleep after it, of the longest that there is.
    fn turn(&mut self) {
        self.wheel.turn();
        self.time.advance(SETTINGS.longest_sleep());
    }

    /// The tick of the last turn.
    fn last_turn(&self) -> Tick {
        let now = self.timeouts.clock().now().as_nanos() - nanos(SETTINGS.longest_sleep());
        Tick(now / nanos(SETTINGS.tick))
    }

    fn arm(&self, ms: u64) -> Arc<TimerCell> {
        let timer = new_timer();
        let now = self.timeouts.clock().now();
        self.timeouts.arm(&timer, RequestedDeadline::exact(after(now, ms)));
        timer
    }
}

#[test]
fn the_wheel_looks_at_its_slots_only_while_it_is_watched() {
    for scheme in Scheme::ALL {
        let mut stepped = Stepped::new(scheme);
        let _timers = [1_000, 1_001, 100_000].map(|ms| stepped.arm(ms));
        stepped.turn();
        let watch = stepped.timeouts.watch_rings();
        assert_eq!(watch.rings(), None, "{scheme}: what was before the watch began");
        stepped.turn();
        let first = watch.rings().expect("it has turned");
        assert_eq!(first.tick, stepped.last_turn(), "{scheme}");

        stepped.turn();
        let other = stepped.timeouts.watch_rings();
        drop(watch);
        stepped.turn();
        assert_eq!(other.rings().map(|rings| rings.tick), Some(stepped.last_turn()), "one still watches");
        drop(other);
        stepped.turn();
        let late = stepped.timeouts.watch_rings();
        assert_eq!(late.rings(), None);
        assert_eq!(stepped.timeouts.stats.rings.written(), 3, "{scheme}: nobody watched the last turn");
    }
}

#[test]
fn slots_show_what_they_hold() {
    let mut stepped = Stepped::new(Scheme::Hierarchical);
    let _timers = [1_000, 1_000, 100_000].map(|ms| stepped.arm(ms));
    let watch = stepped.timeouts.watch_rings();
    stepped.turn();
    let rings = watch.rings().expect("it has turned");
    let ring = |level: u32, lit: serde_json::Value| {
        let slot_ticks = 256_u64.pow(level);
        let hand = rings.tick.0 / slot_ticks % 256;
        serde_json::json!({"slots": 256, "slot_ticks": slot_ticks, "hand": hand, "counted": true, "lit": lit})
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
    let held: Vec<usize> = watch.rings().expect("it has turned").rings.iter().map(RingView::held).collect();
    assert_eq!(held, levels, "all levels, and all that they hold");
}

#[test]
fn each_scheme_has_the_rings_that_it_says() {
    let expected = |scheme: Scheme| match scheme {
        Scheme::Hierarchical | Scheme::HierarchicalLists | Scheme::OneMigration => 8,
        Scheme::Coarse => 21,
        Scheme::Simple | Scheme::HashedSorted | Scheme::HashedUnsorted | Scheme::LogicSimulation => 1,
        Scheme::CalendarQueue
        | Scheme::BinaryHeap
        | Scheme::BalancedTree
        | Scheme::OrderedList
        | Scheme::UnorderedList
        | Scheme::Lawn => 0,
    };
    for scheme in Scheme::ALL {
        let mut stepped = Stepped::new(scheme);
        let _timer = stepped.arm(10_000);
        let watch = stepped.timeouts.watch_rings();
        stepped.turn();
        let rings = watch.rings().expect("it has turned").rings;
        assert_eq!(rings.len(), expected(scheme), "{scheme}");
        let lit: usize = rings.iter().map(RingView::held).sum();
        // There it is on the list of what is beyond the present cycle.
        let is_seen = !rings.is_empty() && scheme != Scheme::LogicSimulation;
        assert_eq!(lit, usize::from(is_seen), "{scheme}: the one timer is seen once");
    }
}
