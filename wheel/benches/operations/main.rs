//! What setting, moving, cancelling and expiring a timer costs, in nanoseconds, with how many timers outstanding.
//!
//! All structures take turns within a run, and every size has several runs: the median is told, and how far the runs lie
//! from it. [`phases`] are the operations one by one with random deadlines, [`sessions`] all of them together, as a
//! server with heartbeats mixes them.

mod batches;
mod phases;
mod sessions;
mod standing;
#[path = "../support/mod.rs"]
mod support;

use clap::{Parser, ValueEnum};

use batches::Batches;
use phases::Phases;
use support::args::Common;
use support::deadlines::Deadlines;
use support::plot::Axes;
use support::report::{Plot, Report};
use support::statistics::{ns_each, short};
use support::structures::standing::{StandingVisitor, Stays, standing};
use support::structures::{Limits, Structure, Visitor, structures};
use support::verify::verify;
use support::{Failure, table};

/// Nanoseconds per operation, for every scheme and for the crates that people would use instead
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    common: Common,

    /// The largest number of timers
    #[arg(long)]
    max_timers: Option<u32>,

    /// Only these operations, separated by commas
    #[arg(long, value_delimiter = ',', value_enum)]
    ops: Vec<Op>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Op {
    /// Setting a timer, in memory that grows
    Schedule,
    /// Moving a timer to another deadline
    Reschedule,
    /// Cancelling a timer
    Cancel,
    /// What of cancelling was left for when time passes
    Sweep,
    /// Setting a timer, in memory that was used before
    Refill,
    /// Driving time until a timer comes out
    Expire,
    /// All of it, as sessions with heartbeats do
    Sessions,
    /// Registering a timer that stays, and arming it, in memory that grows
    Register,
    /// Arming one anew
    Arm,
    /// Arming one within a range that has its deadline: nothing is to be done
    Within,
    /// Disarming one
    Disarm,
    /// Driving time until one expires, and is lent
    Lend,
    /// Taking one out for good
    Unregister,
}

impl Op {
    /// Those of timers for once.
    const ONCE: [Op; 7] =
        [Op::Schedule, Op::Reschedule, Op::Cancel, Op::Sweep, Op::Refill, Op::Expire, Op::Sessions];

    /// Those of timers that stay, which are measured together.
    const STANDING: [Op; 6] = [Op::Register, Op::Arm, Op::Within, Op::Disarm, Op::Lend, Op::Unregister];

    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

fn main() -> Result<(), Failure> {
    let mut args = Args::parse();
    if args.ops.is_empty() {
        args.ops = Op::value_variants().to_vec();
    }
    let mut report = Report::new("operations", "timers");
    let mut subjects = Subjects { common: &args.common, all: Vec::new(), standing: Vec::new() };
    structures(&mut subjects);
    subjects.add_batches();
    standing(&mut subjects);
    let Subjects { all: subjects, standing: stays, .. } = subjects;

    let max = args.max_timers.unwrap_or(args.common.either(10_000_000, 10_000));
    for timers in [1_000, 10_000, 100_000, 1_000_000, 10_000_000].into_iter().filter(|&timers| timers <= max)
    {
        let deadlines = Deadlines::random(timers, timers.into());
        let mut checksum = None;
        for run in 0..args.common.runs(5) {
            for subject in &subjects {
                table::progress(format_args!("{} timers, run {run}: {}", short(timers.into()), subject.name));
                measure(subject, &args, &deadlines, &mut checksum, &mut report);
            }
            for subject in stays.iter().filter(|_| args.ops.iter().any(|op| Op::STANDING.contains(op))) {
                table::progress(format_args!(
                    "{} that stay, run {run}: {}",
                    short(timers.into()),
                    subject.name
                ));
                measure_standing(subject, &args, &deadlines, &mut report);
            }
        }
    }
    let titles: Vec<(Op, String)> = args.ops.iter().map(|&op| (op, op.name())).collect();
    let files: Vec<String> = titles.iter().map(|(_, name)| format!("operations-{name}.svg")).collect();
    let plots: Vec<Plot<'_>> =
        titles.iter().zip(&files).map(|((_, op), file)| Plot { file, op, axes: axes(op) }).collect();
    report.tell(&args.common, &plots)
}

fn axes(op: &str) -> Axes {
    Axes { title: format!("{op}: nanoseconds per operation"), x: "timers outstanding", y: "ns" }
}

/// A structure, with its type in the functions.
struct Subject {
    name: &'static str,
    limits: Limits,
    ops: &'static [Op],
    phases: fn(&Deadlines, bool) -> Phases,
    sessions: fn(u32, u64) -> sessions::Outcome,
}

/// Timers that stay, with their type in the function.
struct StandingSubject {
    name: &'static str,
    limits: Limits,
    measure: fn(&Deadlines) -> standing::Standing,
}

struct Subjects<'a> {
    common: &'a Common,
    all: Vec<Subject>,
    standing: Vec<StandingSubject>,
}

impl StandingVisitor for Subjects<'_> {
    fn visit<S: Stays>(&mut self) {
        if self.common.wants(S::NAME) {
            let measure = standing::measure::<S>;
            self.standing.push(StandingSubject { name: S::NAME, limits: S::LIMITS, measure });
        }
    }
}

impl Subjects<'_> {
    /// Nothing but expiring differs there.
    fn add_batches(&mut self) {
        self.add::<Batches>(&[Op::Expire]);
    }

    fn add<S: Structure>(&mut self, ops: &'static [Op]) {
        if !self.common.wants(S::NAME) {
            return;
        }
        verify::<S>();
        let (phases, sessions) = (phases::measure::<S>, sessions::measure::<S>);
        self.all.push(Subject { name: S::NAME, limits: S::LIMITS, ops, phases, sessions });
    }
}

impl Visitor for Subjects<'_> {
    fn visit<S: Structure>(&mut self) {
        self.add::<S>(&Op::ONCE);
    }
}

fn measure(
    subject: &Subject,
    args: &Args,
    deadlines: &Deadlines,
    checksum_of_all: &mut Option<u64>,
    report: &mut Report,
) {
    let timers = u32::try_from(deadlines.first.len()).expect("made of a u32");
    let wants = |op| args.ops.contains(&op) && subject.ops.contains(&op);
    let changes = timers <= subject.limits.change;
    let expires = timers <= subject.limits.expire;
    if changes && Op::ONCE.iter().any(|&op| op != Op::Sessions && wants(op)) {
        let phases = (subject.phases)(deadlines, expires && wants(Op::Expire));
        for (op, time) in phases.times() {
            if let Some(time) = time.filter(|_| wants(op)) {
                report.add(&op.name(), "ns", subject.name, timers.into(), ns_each(time, phases.timers));
            }
        }
    }
    if timers <= subject.limits.sessions && wants(Op::Sessions) {
        let outcome = (subject.sessions)(timers, sessions::ticks(timers, args.common.quick));
        let extra = report.add(
            &Op::Sessions.name(),
            "ns",
            subject.name,
            timers.into(),
            ns_each(outcome.time, outcome.operations),
        );
        extra.insert("operations".into(), outcome.operations.into());
        if let Some(checksum) = outcome.checksum {
            let first = extra.insert("checksum".into(), checksum.into());
            assert!(first.is_none_or(|first| first == checksum), "each run is the same");
            assert_eq!(
                *checksum_of_all.get_or_insert(checksum),
                checksum,
                "{} has another history",
                subject.name
            );
        }
    }
}

fn measure_standing(subject: &StandingSubject, args: &Args, deadlines: &Deadlines, report: &mut Report) {
    let timers = u32::try_from(deadlines.first.len()).expect("made of a u32");
    if timers > subject.limits.change.min(subject.limits.expire) {
        return;
    }
    let measured = (subject.measure)(deadlines);
    for (op, time) in measured.times {
        if args.ops.contains(&op) {
            report.add(&op.name(), "ns", subject.name, timers.into(), ns_each(time, measured.timers));
        }
    }
}
