//! What lies beyond a wheel: the problem that A. Lev-Libfeld's *Timer Lawn* (2019) sets out from. Timing wheels are quick
//! as long as timers fit into one turn; what becomes of the others?
//!
//! | scheme | what is too far ahead |
//! |---|---|
//! | `SimpleWheel`, 65,536 slots | is refused; the caller takes the last tick it can have, and sets the timer again then |
//! | `LogicSimulationWheel`, 4,096 slots | waits in a list that is searched once a turn |
//! | `HashedUnsortedWheel`, 4,096 slots | is looked at once a turn |
//! | `HashedSortedWheel`, 4,096 slots | is searched for its place among the others of its slot |
//! | `HierarchicalWheel`, `TimingWheel` | moves down once a level |
//! | `NonCascadingWheel`, `OneMigrationWheel` | comes out late |
//! | `Lawn` | is as any other, if there are few lengths of time |
//!
//! A tick is a millisecond. Within a second, so many timers are set, with lengths of time up to the one across the table:
//! at random, or one of eight that are evenly spaced, as Lawn wants them. Then time is driven in steps of 10 ms for ten
//! minutes or half a million expiries, whichever comes first, and each timer that expires is set again for as long as
//! before. Both are timed. Touched are the timers that expired, moved, or were looked at in vain; clamped those that
//! the caller had to set again. No timer is early, and none later than its scheme admits.

mod support;

use std::time::{Duration, Instant};

use clap::Parser;
use encke_wheel::{Expire, Tick, Work};

use support::args::Common;
use support::plot::Axes;
use support::random::Random;
use support::report::{Plot, Report};
use support::statistics::{ns_each, ratio};
use support::structures::{Limits, Scheme, SchemeVisitor, schemes};
use support::{Failure, table};

/// The lengths of time, in seconds.
const LENGTHS: [u32; 8] = [1, 10, 60, 600, 3_600, 21_600, 86_400, 604_800];

/// How far a wheel without turns reaches, whatever is asked of it.
const REACH: u64 = 65_535;

const STEP: u64 = 10;
const FILL: u64 = 1_000;
const ENOUGH: u64 = 500_000;

/// Time per operation when timers lie further and further ahead
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    common: Common,

    /// How many timers
    #[arg(long)]
    timers: Option<u32>,

    /// Cut a scheme short that takes longer, in milliseconds
    #[arg(long, default_value_t = 5_000)]
    limit: u64,
}

/// What is driven through time.
#[derive(Clone, Copy, Debug)]
struct Load {
    timers: u32,
    /// The longest time, in ticks.
    longest: u32,
    /// Whether there are only a few lengths of time.
    few: bool,
    until: u64,
    limit: Duration,
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let timers = args.timers.unwrap_or(args.common.either(100_000, 2_000));
    let limit = Duration::from_millis(args.common.either(args.limit, args.limit.min(50)));
    let until = args.common.either(600_000, 20_000);
    let mut report = Report::new("overflow", "seconds");
    let mut subjects = Subjects { common: &args.common, timers, all: Vec::new() };
    schemes(&mut subjects);
    for seconds in LENGTHS {
        for run in 0..args.common.runs(3) {
            for few in [false, true] {
                let load = Load { timers, longest: seconds * 1_000, few, until, limit };
                for subject in &subjects.all {
                    table::progress(format_args!("{seconds} s, run {run}, few {few}: {}", subject.name));
                    let outcome = (subject.measure)(load);
                    tell(&mut report, subject.name, seconds, load, &outcome);
                }
            }
        }
    }
    let axes = |title: &str| Axes { title: title.to_owned(), x: "longest time, s", y: "ns" };
    let plots = [
        Plot { file: "overflow-set.svg", op: SET[0], axes: axes("setting a timer of any length") },
        Plot { file: "overflow-drive.svg", op: STEPS[0], axes: axes("driving 10 ms, timers of any length") },
        Plot {
            file: "overflow-drive-few.svg",
            op: STEPS[1],
            axes: axes("driving 10 ms, timers of eight lengths"),
        },
    ];
    report.tell(&args.common, &plots)
}

const SET: [&str; 2] = ["set, any length", "set, eight lengths"];
const DRIVE: [&str; 2] = ["drive per expiry, any length", "drive per expiry, eight lengths"];
const STEPS: [&str; 2] = ["drive per 10 ms, any length", "drive per 10 ms, eight lengths"];
const TOUCHED: [&str; 2] = ["touched per expiry, any length", "touched per expiry, eight lengths"];
const CLAMPED: [&str; 2] = ["clamped per expiry, any length", "clamped per expiry, eight lengths"];

fn tell(report: &mut Report, name: &str, seconds: u32, load: Load, outcome: &Outcome) {
    let (few, seconds) = (usize::from(load.few), u64::from(seconds));
    report.add(SET[few], "ns", name, seconds, ns_each(outcome.set, load.timers.into()));
    report.add(STEPS[few], "ns", name, seconds, ns_each(outcome.drive, outcome.steps));
    // What nothing came out of has no figure for each that did.
    if outcome.expired == 0 {
        return;
    }
    let extra = report.add(DRIVE[few], "ns", name, seconds, ns_each(outcome.drive, outcome.expired));
    extra.insert("expired".into(), outcome.expired.into());
    extra.insert("touched".into(), outcome.touched.into());
    extra.insert("clamped".into(), outcome.clamped.into());
    extra.insert("latest".into(), outcome.latest.into());
    extra.insert("cut_short".into(), outcome.cut_short.into());
    report.add(TOUCHED[few], "times", name, seconds, ratio(outcome.touched, outcome.expired));
    if outcome.clamped > 0 {
        report.add(CLAMPED[few], "times", name, seconds, ratio(outcome.clamped, outcome.expired));
    }
}

/// A scheme, with its type in the function.
struct Subject {
    name: &'static str,
    measure: fn(Load) -> Outcome,
}

struct Subjects<'a> {
    common: &'a Common,
    timers: u32,
    all: Vec<Subject>,
}

impl SchemeVisitor<u32> for Subjects<'_> {
    fn visit<Q: Scheme<u32>>(&mut self) {
        let Limits { change, .. } = Q::LIMITS;
        if self.common.wants(Q::NAME) && self.timers <= change {
            self.all.push(Subject { name: Q::NAME, measure: measure::<Q> });
        }
    }
}

#[derive(Debug, Default)]
struct Outcome {
    set: Duration,
    drive: Duration,
    /// Of time, 10 ms each.
    steps: u64,
    expired: u64,
    touched: u64,
    clamped: u64,
    /// By how many ticks a timer was late at most.
    latest: u64,
    cut_short: bool,
}

fn measure<Q: Scheme<u32>>(load: Load) -> Outcome {
    let mut random = Random(u64::from(load.longest));
    let lengths = (0..load.timers)
        .map(|id| if load.few { load.longest / 8 * (1 + id % 8) } else { 1 + random.below(load.longest) })
        .collect();
    let mut timers =
        Timers { queue: Q::with_reach(REACH), lengths, deadlines: vec![0; load.timers as usize], clamped: 0 };
    let mut outcome = Outcome::default();
    timers.fill(load, &mut outcome);
    timers.drive(load, &mut outcome);
    outcome.clamped = timers.clamped;
    outcome
}

struct Timers<Q> {
    queue: Q,
    lengths: Vec<u32>,
    /// What the caller wants, which the queue may not reach.
    deadlines: Vec<u64>,
    clamped: u64,
}

impl<Q: Scheme<u32>> Timers<Q> {
    /// Sets all timers in the course of a second. What expires meanwhile is set again, and not counted.
    fn fill(&mut self, load: Load, outcome: &mut Outcome) {
        let mut next = 0;
        for now in 1..=FILL {
            self.expire(now, &mut Work::unlimited(), &mut Outcome::default());
            #[expect(clippy::cast_possible_truncation, reason = "no more than the timers")]
            let until = (u64::from(load.timers) * now / FILL) as u32;
            let clock = Instant::now();
            while next < until {
                self.set(next);
                next += 1;
            }
            outcome.set += clock.elapsed();
        }
    }

    fn drive(&mut self, load: Load, outcome: &mut Outcome) {
        let mut work = Work::unlimited();
        let clock = Instant::now();
        let mut now = FILL;
        while now < FILL + load.until && outcome.expired < ENOUGH {
            now += STEP;
            outcome.steps += 1;
            self.expire(now, &mut work, outcome);
            if clock.elapsed() > load.limit {
                outcome.cut_short = true;
                break;
            }
        }
        outcome.drive = clock.elapsed();
        outcome.touched = u64::MAX - work.left();
    }

    fn expire(&mut self, to: u64, work: &mut Work, outcome: &mut Outcome) {
        while let Expire::Due(expired) = self.queue.expire_next(Tick(to), work) {
            let (now, id) = (self.queue.now().0, expired.value as usize);
            if now < self.deadlines[id] {
                self.arm(expired.value);
                continue;
            }
            let late = now - self.deadlines[id];
            assert!(late <= self.queue.precision(self.lengths[id].into()), "{}: too late", Q::NAME);
            outcome.expired += 1;
            outcome.latest = outcome.latest.max(late);
            self.set(expired.value);
        }
    }

    fn set(&mut self, id: u32) {
        self.deadlines[id as usize] = self.queue.now().0 + u64::from(self.lengths[id as usize]);
        self.arm(id);
    }

    /// Sets it to its deadline, or to what comes nearest.
    fn arm(&mut self, id: u32) {
        if let Err(beyond) = self.queue.schedule(Tick(self.deadlines[id as usize]), id) {
            self.clamped += 1;
            assert!(self.queue.schedule(beyond.last, id).is_ok(), "{}: the last tick can be had", Q::NAME);
        }
    }
}
