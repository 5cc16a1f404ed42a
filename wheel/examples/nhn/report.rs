use std::fmt;
use std::time::Duration;

use encke_wheel::Tick;

use crate::formula::{CAP, SLOT, SLOTS, expiry_by_formula, target_slot};
use crate::wheel_thread::{WheelCounts, refused};
use crate::{EXPIRY, RUN, SESSIONS, SessionTimer, TimerKind, WORKERS};

pub(crate) struct RunReport {
    /// Jobs received by the workers, with their lateness.
    pub(crate) received: Vec<(SessionTimer, Duration)>,
    pub(crate) counts: WheelCounts,
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (run, slot) = (Duration::from_millis(RUN.0), SLOT.get());
        writeln!(
            f,
            "{SESSIONS} sessions for {run:?}: a ping every 100 to 300 ms, an expiry after {EXPIRY} ms."
        )?;
        writeln!(f, "{SLOTS} slots of {slot} ms, one wheel thread, {WORKERS} workers.")?;
        self.lateness(f)?;
        self.slots(f)?;
        self.cap(f)?;
        self.thread(f, run)
    }
}

impl RunReport {
    fn lateness(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let late = sorted(self.received.iter().map(|(_, late)| late.as_micros()));
        let pings =
            self.received.iter().map(|(timer, _)| timer).filter(|timer| timer.kind == TimerKind::Ping);
        let early = sorted(pings.map(|ping| {
            let interval = ping.deadline.saturating_since(ping.started);
            u128::from(ping.deadline.saturating_since(expiry_by_formula(ping.started, interval))) * 1000
        }));
        writeln!(
            f,
            "\nLateness of {} timers on arrival at a worker (ms): {}; none early.",
            late.len(),
            spread(&late)
        )?;
        writeln!(f, "    A timer waits for the first slot that begins at or after its deadline.")?;
        writeln!(f, "Earliness of the {} pings by NHN's formula: {}.", early.len(), spread(&early))?;
        writeln!(
            f,
            "    targetSlot = (currentSlot + timeInterval / slotInterval) % timeSlotCount rounds down twice."
        )
    }

    fn slots(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{:>4}  {:>11}  {:>12}", "slot", "handed over", "most at once")?;
        for (index, slot) in self.counts.slots.iter().enumerate() {
            writeln!(f, "{index:>4}  {:>11}  {:>12}", slot.handed_over, slot.max_at_once)?;
        }
        writeln!(
            f,
            "    All timers of a slot are due at once, so the last waits for the workers to finish the others."
        )
    }

    fn cap(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let beyond = CAP + 1;
        let around = CAP + SLOT.get();
        let by_formula = (target_slot(Tick(0), around), expiry_by_formula(Tick(0), around));
        writeln!(f, "\nThe cap: {beyond} ms from 0 is refused: {}.", refused(beyond).unwrap_or_default())?;
        let (target, expiry) = by_formula;
        writeln!(
            f,
            "    By the formula alone {around} ms goes to slot {target}, and expires after {expiry}."
        )?;
        let WheelCounts { capped, expiries, .. } = self.counts;
        writeln!(
            f,
            "    {expiries} expiries of {EXPIRY} ms were started, and set to the cap {capped} times."
        )?;
        let seconds = 3600 + 23 * 60 + 15;
        writeln!(
            f,
            "    1 h 23 min 15 s in seconds takes {seconds} slots, {} KiB here.",
            seconds * 4 / 1024
        )?;
        writeln!(f, "    A hierarchy of wheels accepts any duration as one timer, set once.")
    }

    fn thread(&self, f: &mut fmt::Formatter<'_>, run: Duration) -> fmt::Result {
        let awake = run.saturating_sub(self.counts.asleep);
        let moved = self.counts.set + self.received.len() as u64;
        let each = awake.as_nanos() / u128::from(moved.max(1));
        let share = awake.as_millis() * 100 / run.as_millis();
        writeln!(
            f,
            "\nThe wheel thread was awake for {share} % of the time, and slept {} times.",
            self.counts.sleeps
        )?;
        writeln!(f, "    {each} ns per timer set or handed over, including both channels and waking workers.")
    }
}

fn sorted(figures: impl Iterator<Item = u128>) -> Vec<u128> {
    let mut figures: Vec<_> = figures.collect();
    figures.sort_unstable();
    figures
}

fn spread(sorted: &[u128]) -> String {
    let at = |percent: usize| {
        let us = sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1)));
        let us = us.copied().unwrap_or(0);
        format!("{}.{}", us / 1000, us % 1000 / 100)
    };
    format!("median {}, p99 {}, most {}", at(50), at(99), at(100))
}
