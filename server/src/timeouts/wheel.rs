use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError};
use encke_core::Timestamp;
use encke_wheel::{Expire, Tick, TimerKey, TimerQueue, Work};

use crate::clock::nanos;

use super::scheme::{Scheme, UseQueue};
use super::{Batch, TickLength, Timeouts, TimerCell, Wish};

/// Expiries and cascades between two looks into the names: a crowd on one tick does not keep a cancelled timer in.
const WORK_PER_LOOK: u64 = 4096;

/// How the wheel thread turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WheelSettings {
    /// How the wheel keeps its timers.
    pub(crate) scheme: Scheme,
    /// The wheel's unit of time.
    pub(crate) tick: Duration,
    /// Waking later than planned by more than this is a stall.
    pub(crate) stall_threshold: Duration,
}

impl WheelSettings {
    /// However far the next expiry is. So far behind may the wheel stand when it takes up a name.
    pub(crate) fn longest_sleep(&self) -> Duration {
        self.stall_threshold / 2
    }
}

/// The running wheel thread.
#[derive(Debug)]
pub(crate) struct WheelThread {
    thread: JoinHandle<()>,
    timeouts: Arc<Timeouts>,
    stop: Arc<AtomicBool>,
}

impl WheelThread {
    /// Starts the thread, which sends what expires into `batches`.
    ///
    /// # Errors
    /// The system's, when it cannot start a thread.
    pub(crate) fn start(
        settings: WheelSettings,
        timeouts: Arc<Timeouts>,
        names: Receiver<Arc<TimerCell>>,
        batches: Sender<Batch>,
    ) -> std::io::Result<Self> {
        let now = TickLength::of(settings.tick).last_at_or_before(timeouts.clock().now());
        settings.scheme.queue(now, Unstarted { settings, timeouts, names, batches })
    }

    /// Ends the thread. The workers, finding no more batches, end after it.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        self.timeouts.unpark_wheel();
        // It cannot have panicked: that would have ended the process.
        let _ = self.thread.join();
    }
}

/// A wheel thread that has no wheel yet.
pub(super) struct Unstarted {
    pub(super) settings: WheelSettings,
    pub(super) timeouts: Arc<Timeouts>,
    pub(super) names: Receiver<Arc<TimerCell>>,
    pub(super) batches: Sender<Batch>,
}

impl Unstarted {
    pub(super) fn turner<Q: TimerQueue<Arc<TimerCell>>>(self, wheel: Q) -> Turner<Q> {
        self.timeouts.stats.has_levels(wheel.levels());
        Turner {
            wheel,
            tick: TickLength::of(self.settings.tick),
            longest_sleep: self.settings.longest_sleep(),
            timeouts: self.timeouts,
            names: self.names,
            batches: self.batches,
            pending: Batch::default(),
            stop: Arc::new(AtomicBool::new(false)),
        }
    }
}

/// Starts the thread. All that it does is compiled for the very scheme.
impl UseQueue<Arc<TimerCell>> for Unstarted {
    type Output = std::io::Result<WheelThread>;

    fn with<Q: TimerQueue<Arc<TimerCell>> + Send + 'static>(self, wheel: Q) -> Self::Output {
        let timeouts = Arc::clone(&self.timeouts);
        let turner = self.turner(wheel);
        let stop = Arc::clone(&turner.stop);
        let thread = thread::Builder::new().name("encke-wheel".into()).spawn(move || {
            let _abort = AbortOnPanic;
            turner.run();
        })?;
        timeouts.wheel_thread.get_or_init(|| thread.thread().clone());
        Ok(WheelThread { thread, timeouts, stop })
    }
}

/// Without the wheel no timeout ever passes and the server's time stands still: better to end and be started again.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}

/// What the wheel thread owns. It only routes: it runs no session code and takes no session's lock.
pub(super) struct Turner<Q> {
    pub(super) wheel: Q,
    tick: TickLength,
    longest_sleep: Duration,
    timeouts: Arc<Timeouts>,
    names: Receiver<Arc<TimerCell>>,
    batches: Sender<Batch>,
    /// Expired, not yet sent: at most one batch, for the wheel is not advanced while it is full.
    pending: Batch,
    stop: Arc<AtomicBool>,
}

/// Whether everything that had expired went out to the workers.
#[derive(PartialEq)]
pub(super) enum Dispatch {
    Done,
    ChannelFull,
}

impl<Q: TimerQueue<Arc<TimerCell>>> Turner<Q> {
    fn run(mut self) {
        while !self.stop.load(Ordering::Acquire) {
            let now = self.begin_turn();
            self.receive_names();
            let dispatch = self.advance(now);
            self.publish_occupancy();
            self.sleep(now, &dispatch);
        }
    }

    fn begin_turn(&self) -> Timestamp {
        let clock = self.timeouts.clock();
        let turn = clock.turn();
        let stats = &self.timeouts.stats;
        stats.last_turn_nanos.store(nanos(clock.uptime()), Ordering::Relaxed);
        if !turn.stalled.is_zero() {
            stats.stalls.fetch_add(1, Ordering::Relaxed);
            stats.stolen_nanos.fetch_add(nanos(turn.stalled), Ordering::Relaxed);
            tracing::warn!(stalled = ?turn.stalled, "the server was not served; its clock stood still meanwhile");
        }
        turn.now
    }

    /// Takes every waiting name. Returns whether there was any.
    pub(super) fn receive_names(&mut self) -> bool {
        let mut any = false;
        // Bounded, so that a flood of names does not keep the wheel from turning.
        for _ in 0..self.names.len() {
            let Ok(cell) = self.names.try_recv() else { break };
            self.take_up(cell);
            any = true;
        }
        any
    }

    fn take_up(&mut self, cell: Arc<TimerCell>) {
        let wish = cell.arming.received();
        match (cell.arming.armed(), wish.latest(self.timeouts.slack)) {
            (None, None) => {}
            (None, Some(_)) => self.schedule(cell, wish),
            (Some(armed), Some(latest)) if armed <= latest => {}
            // Earlier than armed, or not at all: forget the entry, then look again.
            (Some(_), _) => {
                let key = cell.key.lock().take();
                if let Some(key) = key {
                    self.wheel.cancel(key);
                }
                let wish = cell.arming.forget();
                self.schedule(cell, wish);
            }
        }
    }

    fn schedule(&mut self, cell: Arc<TimerCell>, mut wish: Wish) {
        while let (Some(earliest), Some(latest)) = (wish.earliest(), wish.latest(self.timeouts.slack)) {
            let first = self.tick.first_at_or_after(earliest);
            let last = self.tick.last_at_or_before(Timestamp::from_nanos(latest)).max(first);
            let (key, at) = self.enter(first..=last, Arc::clone(&cell));
            let late = self.wheel.precision(at.saturating_since(self.wheel.now()));
            let served = match late {
                // An exact deadline within a tick is served by the end of it; a wish for the same one again is, too.
                0 => self.tick.nanos(at).min(latest),
                // It may come out so late; a wish for before that may get an entry that does not.
                _ => self.tick.nanos(at.saturating_add(late)),
            };
            if cell.arming.set_armed(served) != Wish::NONE {
                *cell.key.lock() = Some(key);
                return;
            }
            self.wheel.cancel(key);
            wish = cell.arming.forget();
        }
    }

    /// Puts a name into the wheel for a tick in `range`: the entry, and the tick. What lies beyond the scheme's horizon
    /// goes where that ends: it fires early, finds that its wish is later, and is armed again.
    fn enter(&mut self, range: RangeInclusive<Tick>, cell: Arc<TimerCell>) -> (TimerKey, Tick) {
        let key = match self.wheel.schedule_within(range, cell) {
            Ok(key) => key,
            Err(beyond) => {
                let at_horizon = self.wheel.schedule(beyond.last, beyond.value);
                at_horizon.expect("the scheme reaches as far as it says")
            }
        };
        (key, self.wheel.deadline(key).expect("it was put in just now"))
    }

    /// Drives the wheel to `now` and sends what expires, 64 a message.
    pub(super) fn advance(&mut self, now: Timestamp) -> Dispatch {
        let to = self.tick.last_at_or_before(now);
        let mut work = Work::new(WORK_PER_LOOK);
        loop {
            if self.pending.is_full() && self.send_pending() == Dispatch::ChannelFull {
                return Dispatch::ChannelFull;
            }
            match self.wheel.expire_next(to, &mut work) {
                Expire::Due(expired) => self.expired(expired.value, now),
                Expire::OutOfWork => {
                    self.receive_names();
                    work = Work::new(WORK_PER_LOOK);
                }
                Expire::UpToDate => break,
            }
        }
        if self.pending.is_empty() { Dispatch::Done } else { self.send_pending() }
    }

    fn expired(&mut self, cell: Arc<TimerCell>, now: Timestamp) {
        *cell.key.lock() = None;
        let wish = cell.arming.forget();
        match wish.earliest() {
            None => {}
            Some(due) if due <= now.as_nanos() => self.pending.push(cell, now),
            Some(_) => self.schedule(cell, wish),
        }
    }

    /// When the channel is full, everything stays and goes out at a later tick: late, but not lost.
    fn send_pending(&mut self) -> Dispatch {
        match self.batches.try_send(std::mem::take(&mut self.pending)) {
            Ok(()) => Dispatch::Done,
            Err(TrySendError::Full(batch)) => {
                self.pending = batch;
                Dispatch::ChannelFull
            }
            // The workers end after this thread, unless all of them have died.
            Err(TrySendError::Disconnected(_)) => Dispatch::Done,
        }
    }

    pub(super) fn publish_occupancy(&self) {
        self.timeouts.stats.entries.store(self.wheel.len(), Ordering::Relaxed);
        for (level, shown) in self.timeouts.stats.occupancy().iter().enumerate() {
            shown.store(self.wheel.occupancy(level), Ordering::Relaxed);
        }
    }

    fn sleep(&mut self, now: Timestamp, dispatch: &Dispatch) {
        let wake_up = self.wake_up(now, dispatch);
        let clock = self.timeouts.clock();
        clock.plan(wake_up);
        self.timeouts.parking.announce(wake_up.as_nanos());
        if !self.receive_names() && !self.stop.load(Ordering::Acquire) {
            thread::park_timeout(wake_up.since(self.timeouts.clock().now()));
        }
        self.timeouts.parking.awake();
    }

    /// When there is something to do next, as far as the wheel knows.
    pub(super) fn wake_up(&self, now: Timestamp, dispatch: &Dispatch) -> Timestamp {
        let at_most = now + self.longest_sleep;
        let next_tick = Tick(self.tick.last_at_or_before(now).0.saturating_add(1));
        let tick = match dispatch {
            Dispatch::ChannelFull => Some(next_tick),
            Dispatch::Done => self.wheel.next_wakeup(self.tick.first_at_or_after(at_most.as_nanos())),
        };
        tick.map_or(at_most, |tick| Timestamp::from_nanos(self.tick.nanos(tick.max(next_tick))).min(at_most))
    }
}

impl Batch {
    fn push(&mut self, cell: Arc<TimerCell>, now: Timestamp) {
        if self.cells.is_empty() {
            self.expired_at = Some(now);
        }
        self.cells.push(cell);
    }

    fn is_full(&self) -> bool {
        self.cells.is_full()
    }

    fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }
}
