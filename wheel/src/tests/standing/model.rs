//! Random use of timers that stay, compared with a list of them at every step.

use alloc::vec::Vec;

use super::super::seed::{Random, with_seeds};
use super::super::size;
use crate::{BeyondHorizon, Expire, StandingTimers, Tick, TimerKey, Work};

/// A timer as it should be.
#[derive(Debug)]
struct Known {
    key: TimerKey,
    value: u64,
    armed: Option<Armed>,
}

#[derive(Clone, Copy, Debug)]
struct Armed {
    deadline: Tick,
    /// When it expires at the earliest and at the latest; never, if it is armed at the end of time.
    window: Option<(u64, u64)>,
}

struct Model<S> {
    timers: S,
    known: Vec<Known>,
    gone: Vec<TimerKey>,
    magnitude: u32,
}

impl<S: StandingTimers<u64>> Model<S> {
    fn new(timers: S, magnitude: u32) -> Self {
        let reach = timers.horizon().map_or(u64::BITS, |horizon| horizon.max(1).ilog2() + 2);
        Model { timers, known: Vec::new(), gone: Vec::new(), magnitude: magnitude.min(reach) }
    }

    fn any(&self, random: &mut Random) -> Option<usize> {
        let any = random.below(self.known.len().max(1) as u64);
        (!self.known.is_empty()).then(|| usize::try_from(any).expect("an index"))
    }

    fn any_deadline(&self, random: &mut Random) -> Tick {
        let now = self.timers.now();
        match random.below(16) {
            0 => Tick(now.0.saturating_sub(random.ticks(self.magnitude))),
            1 => Tick(u64::MAX - random.ticks(10)),
            2 => now.saturating_add(self.timers.horizon().unwrap_or(255) + random.below(2)),
            _ => now.saturating_add(random.ticks(self.magnitude)),
        }
    }

    fn register(&mut self, random: &mut Random) {
        let value = random.next();
        let key = self.timers.register(value);
        assert_eq!((self.timers.get(key), self.timers.deadline(key)), (Some(&value), None));
        assert!(self.known.iter().all(|known| known.key != key) && !self.gone.contains(&key), "a new key");
        self.known.push(Known { key, value, armed: None });
    }

    fn unregister(&mut self, random: &mut Random) {
        let Some(at) = self.any(random) else { return };
        let known = self.known.swap_remove(at);
        assert_eq!(self.timers.unregister(known.key), Some(known.value));
        self.gone.push(known.key);
    }

    fn stale(&mut self, random: &mut Random) {
        let any = usize::try_from(random.below(self.gone.len().max(1) as u64)).expect("an index");
        let Some(&key) = self.gone.get(any) else { return };
        let soon = self.timers.now().saturating_add(1);
        assert_eq!(self.timers.arm(key, soon), Ok(false));
        assert_eq!(self.timers.arm_within(key, soon..=soon), Ok(false));
        assert!(!self.timers.disarm(key));
        assert_eq!((self.timers.get(key), self.timers.deadline(key)), (None, None));
        assert_eq!(self.timers.unregister(key), None);
    }

    /// When a timer expires that is armed now.
    fn window(&self, deadline: Tick) -> Option<(u64, u64)> {
        let now = self.timers.now();
        let due = deadline.0.max(now.0.checked_add(1)?);
        Some((due, due.saturating_add(self.timers.precision(deadline.saturating_since(now)))))
    }

    fn arm(&mut self, random: &mut Random) {
        let Some(at) = self.any(random) else { return };
        let start = self.any_deadline(random);
        let (key, before) = (self.known[at].key, self.known[at].armed);
        let last = self.timers.now().saturating_add(self.timers.horizon().unwrap_or(u64::MAX));
        let (mut end, is_within) = (start, random.one_in(3));
        let armed = if is_within {
            end = start.saturating_add(random.ticks(self.magnitude));
            self.timers.arm_within(key, start..=end)
        } else {
            self.timers.arm(key, start)
        };
        let deadline = self.timers.deadline(key);
        let old = before.map(|before| before.deadline);
        if let Err(refused) = armed {
            assert_eq!((refused, deadline), (BeyondHorizon { value: (), last }, old), "it stays as it was");
            assert!(start > last, "{start} is within reach");
            return;
        }
        assert_eq!(armed, Ok(true));
        let deadline = deadline.expect("it is armed");
        assert!((start..=end).contains(&deadline), "{deadline} for {start} to {end}");
        if is_within && old.is_some_and(|old| (start..=end).contains(&old)) {
            assert_eq!(Some(deadline), old, "it stays");
            return;
        }
        self.known[at].armed = Some(Armed { deadline, window: self.window(deadline) });
    }

    fn disarm(&mut self, random: &mut Random) {
        let Some(at) = self.any(random) else { return };
        let known = &mut self.known[at];
        assert_eq!(self.timers.disarm(known.key), known.armed.take().is_some());
        assert!(!self.timers.disarm(known.key), "it was disarmed");
        assert_eq!(self.timers.deadline(known.key), None);
    }

    /// When a timer expires next, at the latest.
    fn latest(&self) -> Option<u64> {
        self.known.iter().filter_map(|known| Some(known.armed?.window?.1)).min()
    }

    /// Drives the timers, with little work at a time, and with changes in between.
    fn drive(&mut self, random: &mut Random) {
        let to = match random.below(8) {
            0 => self.timers.next_wakeup(Tick::MAX).unwrap_or(self.timers.now()),
            1 => Tick(self.timers.now().0.saturating_sub(random.below(3))),
            _ => self.timers.now().saturating_add(random.below(1 << self.magnitude.min(12))),
        };
        let mut tick = self.timers.now();
        loop {
            let wakeup = self.timers.next_wakeup(Tick::MAX);
            assert!(self.latest().is_none_or(|latest| wakeup.is_some_and(|tick| tick.0 <= latest)));
            match self.timers.expire_next(to, &mut Work::new(random.below(6))) {
                Expire::Due(expired) => {
                    let (key, deadline, value) = (expired.key, expired.deadline, expired.value);
                    let known = self.known.iter_mut().find(|known| known.key == key).expect("it is there");
                    assert_eq!(*value, known.value);
                    known.value = known.value.wrapping_add(1);
                    *value = known.value;
                    let armed = known.armed.take().expect("it is armed");
                    let now = self.timers.now();
                    let (earliest, latest) = armed.window.expect("it expires before the end of time");
                    assert!((earliest..=latest).contains(&now.0), "{now} for {armed:?}");
                    assert!(armed.deadline == deadline && now >= tick, "one tick after the other");
                    assert_eq!(self.timers.deadline(key), None, "it has expired");
                    tick = now;
                    if random.one_in(4) {
                        self.change(random);
                    }
                }
                Expire::OutOfWork if random.one_in(3) => self.change(random),
                Expire::OutOfWork => {}
                Expire::UpToDate => break,
            }
        }
        assert!(self.timers.now() >= to);
        assert!(self.latest().is_none_or(|latest| latest > self.timers.now().0), "nothing is left");
    }

    fn change(&mut self, random: &mut Random) {
        match random.below(16) {
            0 => self.register(random),
            1 if self.known.len() > size(30, 10) => self.unregister(random),
            2..4 => self.disarm(random),
            4 => self.stale(random),
            _ => self.arm(random),
        }
    }
}

pub(super) fn it_is_as_a_list_says<S: StandingTimers<u64>>(new: fn(Tick) -> S) {
    for (begins, magnitude) in [(0, 12), (250, 5), (1 << 40, 20), (u64::MAX - 5000, 11)] {
        with_seeds(|random| {
            let mut model = Model::new(new(Tick(begins)), magnitude);
            (0..size(40, 10)).for_each(|_| model.register(random));
            for _ in 0..size(600, 100) {
                if random.one_in(10) {
                    model.drive(random)
                } else {
                    model.change(random)
                }
                assert_eq!(model.timers.len(), model.known.len());
            }
        });
    }
}
