//! Timers beyond the range of a wheel: the problem that motivates A. Lev-Libfeld's *Timer Lawn* (2019).
//! Timing wheels are fast as long as timers fit into one revolution. This benchmark measures timers that do
//! not.
//!
//! | scheme | a timer that is too far ahead |
//! |---|---|
//! | `SimpleWheel`, 65,536 slots | is refused; the caller sets it to the last tick within the horizon, and sets it again when it expires |
//! | `LogicSimulationWheel`, 4,096 slots | waits in a list that is searched once per revolution |
//! | `HashedUnsortedWheel`, 4,096 slots | is examined once per revolution |
//! | `HashedSortedWheel`, 4,096 slots | is inserted in order among the other timers of its slot |
//! | `HierarchicalWheel`, `TimingWheel` | moves down once per level |
//! | `NonCascadingWheel`, `OneMigrationWheel` | expires late |
//! | `Lawn` | is like any other timer, if there are few durations |
//!
//! A tick is a millisecond. All timers are set within one second, with durations up to the value in the
//! column header: either random, or one of eight evenly spaced durations, as Lawn prefers. Time is then
//! driven in steps of 10 ms for ten minutes or half a million expiries, whichever comes first, and each timer
//! that expires is set again with the same duration. Both parts are timed. A timer is "touched" if it
//! expires, moves, or is examined without being due, and "clamped" if the caller has to set it to the
//! horizon. The benchmark checks that no timer is early, and that none is later than its scheme allows.

use std::time::{Duration, Instant};

use clap::Parser;
use encke_wheel::{Expiry, Tick, WorkBudget};
use encke_wheel_bench::args::Common;
use encke_wheel_bench::plot::Axes;
use encke_wheel_bench::random::Random;
use encke_wheel_bench::report::{BenchReport, Plot};
use encke_wheel_bench::statistics::{ns_each, ratio};
use encke_wheel_bench::structures::{BenchScheme, Limits, SchemeVisitor, schemes};
use encke_wheel_bench::{BenchError, table};

/// Maximum durations, in seconds.
const MAX_DURATIONS: [u32; 8] = [1, 10, 60, 600, 3_600, 21_600, 86_400, 604_800];

/// Horizon requested from a wheel whose range is one revolution.
const HORIZON: u64 = 65_535;

const STEP: u64 = 10;
const FILL_TICKS: u64 = 1_000;
const MAX_EXPIRIES: u64 = 500_000;

/// Time per operation as timers move further ahead
#[derive(Debug, Parser)]
struct OverflowArgs {
    #[command(flatten)]
    common: Common,

    /// Number of timers
    #[arg(long)]
    timers: Option<u32>,

    /// Stop measuring a scheme after this time, in milliseconds
    #[arg(long, default_value_t = 5_000)]
    limit: u64,
}

#[derive(Clone, Copy, Debug)]
struct OverflowLoad {
    timers: u32,
    longest: u32,
    /// Whether all timers have one of only eight durations.
    few_durations: bool,
    until: u64,
    limit: Duration,
}

fn main() -> Result<(), BenchError> {
    let args = OverflowArgs::parse();
    let timers = args.timers.unwrap_or(args.common.either(100_000, 2_000));
    let limit = Duration::from_millis(args.common.either(args.limit, args.limit.min(50)));
    let until = args.common.either(600_000, 20_000);
    let mut report = BenchReport::new("overflow", "seconds");
    let mut subjects = OverflowSubjects { common: &args.common, timers, all: Vec::new() };
    schemes(&mut subjects);
    for seconds in MAX_DURATIONS {
        for run in 0..args.common.runs(3) {
            for few_durations in [false, true] {
                let load = OverflowLoad { timers, longest: seconds * 1_000, few_durations, until, limit };
                for subject in &subjects.all {
                    table::progress(format_args!(
                        "{seconds} s, run {run}, few_durations {few_durations}: {}",
                        subject.name
                    ));
                    let outcome = (subject.measure)(load);
                    add(&mut report, subject.name, seconds, load, &outcome);
                }
            }
        }
    }
    let axes = |title: &str| Axes { title: title.to_owned(), x: "longest duration, s", y: "ns" };
    let plots = [
        Plot { file: "overflow-set.svg", op: SET[0], axes: axes("setting a timer of random duration") },
        Plot {
            file: "overflow-drive.svg",
            op: STEPS[0],
            axes: axes("driving 10 ms, timers of random durations"),
        },
        Plot {
            file: "overflow-drive-few.svg",
            op: STEPS[1],
            axes: axes("driving 10 ms, timers of eight durations"),
        },
    ];
    report.finish(&args.common, &plots)
}

const SET: [&str; 2] = ["set, random durations", "set, eight durations"];
const DRIVE: [&str; 2] = ["drive per expiry, random durations", "drive per expiry, eight durations"];
const STEPS: [&str; 2] = ["drive per 10 ms, random durations", "drive per 10 ms, eight durations"];
const TOUCHED: [&str; 2] = ["touched per expiry, random durations", "touched per expiry, eight durations"];
const CLAMPED: [&str; 2] = ["clamped per expiry, random durations", "clamped per expiry, eight durations"];

fn add(report: &mut BenchReport, name: &str, seconds: u32, load: OverflowLoad, outcome: &OverflowOutcome) {
    let (few_durations, seconds) = (usize::from(load.few_durations), u64::from(seconds));
    report.add(SET[few_durations], "ns", name, seconds, ns_each(outcome.set, load.timers.into()));
    report.add(STEPS[few_durations], "ns", name, seconds, ns_each(outcome.drive, outcome.steps));
    // Skip the results per expiry if no timer expired.
    if outcome.expired == 0 {
        return;
    }
    let extra =
        report.add(DRIVE[few_durations], "ns", name, seconds, ns_each(outcome.drive, outcome.expired));
    extra.insert("expired".into(), outcome.expired.into());
    extra.insert("touched".into(), outcome.touched.into());
    extra.insert("clamped".into(), outcome.clamped.into());
    extra.insert("latest".into(), outcome.latest.into());
    extra.insert("cut_short".into(), outcome.cut_short.into());
    report.add(TOUCHED[few_durations], "times", name, seconds, ratio(outcome.touched, outcome.expired));
    if outcome.clamped > 0 {
        report.add(CLAMPED[few_durations], "times", name, seconds, ratio(outcome.clamped, outcome.expired));
    }
}

/// A scheme to be measured, as a monomorphised function.
struct OverflowSubject {
    name: &'static str,
    measure: fn(OverflowLoad) -> OverflowOutcome,
}

struct OverflowSubjects<'a> {
    common: &'a Common,
    timers: u32,
    all: Vec<OverflowSubject>,
}

impl SchemeVisitor<u32> for OverflowSubjects<'_> {
    fn visit<Q: BenchScheme<u32>>(&mut self) {
        let Limits { change, .. } = Q::LIMITS;
        if self.common.wants(Q::NAME) && self.timers <= change {
            self.all.push(OverflowSubject { name: Q::NAME, measure: measure::<Q> });
        }
    }
}

#[derive(Debug, Default)]
struct OverflowOutcome {
    set: Duration,
    drive: Duration,
    steps: u64,
    expired: u64,
    touched: u64,
    clamped: u64,
    latest: u64,
    cut_short: bool,
}

fn measure<Q: BenchScheme<u32>>(load: OverflowLoad) -> OverflowOutcome {
    let mut random = Random(u64::from(load.longest));
    let durations = (0..load.timers)
        .map(|id| {
            if load.few_durations { load.longest / 8 * (1 + id % 8) } else { 1 + random.below(load.longest) }
        })
        .collect();
    let mut timers = OverflowTimers {
        queue: Q::with_reach(HORIZON),
        durations,
        deadlines: vec![0; load.timers as usize],
        clamped: 0,
    };
    let mut outcome = OverflowOutcome::default();
    timers.fill(load, &mut outcome);
    timers.drive(load, &mut outcome);
    outcome.clamped = timers.clamped;
    outcome
}

struct OverflowTimers<Q> {
    queue: Q,
    durations: Vec<u32>,
    /// Requested deadlines, which may lie beyond the queue's horizon.
    deadlines: Vec<u64>,
    clamped: u64,
}

impl<Q: BenchScheme<u32>> OverflowTimers<Q> {
    /// Sets all timers in the course of a second. Timers that expire during this second are set again and not
    /// counted.
    fn fill(&mut self, load: OverflowLoad, outcome: &mut OverflowOutcome) {
        let mut next = 0;
        for now in 1..=FILL_TICKS {
            self.expire(now, &mut WorkBudget::unlimited(), &mut OverflowOutcome::default());
            #[expect(clippy::cast_possible_truncation, reason = "at most the number of timers")]
            let until = (u64::from(load.timers) * now / FILL_TICKS) as u32;
            let clock = Instant::now();
            while next < until {
                self.set(next);
                next += 1;
            }
            outcome.set += clock.elapsed();
        }
    }

    fn drive(&mut self, load: OverflowLoad, outcome: &mut OverflowOutcome) {
        let mut work = WorkBudget::unlimited();
        let clock = Instant::now();
        let mut now = FILL_TICKS;
        while now < FILL_TICKS + load.until && outcome.expired < MAX_EXPIRIES {
            now += STEP;
            outcome.steps += 1;
            self.expire(now, &mut work, outcome);
            if clock.elapsed() > load.limit {
                outcome.cut_short = true;
                break;
            }
        }
        outcome.drive = clock.elapsed();
        outcome.touched = u64::MAX - work.remaining();
    }

    fn expire(&mut self, to: u64, work: &mut WorkBudget, outcome: &mut OverflowOutcome) {
        while let Expiry::Due(expired) = self.queue.expire_next(Tick(to), work) {
            let (now, id) = (self.queue.now().0, expired.value as usize);
            if now < self.deadlines[id] {
                self.arm(expired.value);
                continue;
            }
            let late = now - self.deadlines[id];
            assert!(late <= self.queue.precision(self.durations[id].into()), "{}: too late", Q::NAME);
            outcome.expired += 1;
            outcome.latest = outcome.latest.max(late);
            self.set(expired.value);
        }
    }

    fn set(&mut self, id: u32) {
        self.deadlines[id as usize] = self.queue.now().0 + u64::from(self.durations[id as usize]);
        self.arm(id);
    }

    /// Schedules a timer at its deadline, or at the last tick within the horizon.
    fn arm(&mut self, id: u32) {
        if let Err(beyond) = self.queue.schedule(Tick(self.deadlines[id as usize]), id) {
            self.clamped += 1;
            assert!(
                self.queue.schedule(beyond.last, id).is_ok(),
                "{}: the last tick is within the horizon",
                Q::NAME
            );
        }
    }
}
