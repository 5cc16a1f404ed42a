//! Nanoseconds to set, move, cancel and expire a timer, by number of outstanding timers.
//!
//! All structures take turns within a run, and every size has several runs. The report gives the median and
//! the maximum deviation of a run from the median. [`phases`] measures each operation separately, with random
//! deadlines; [`sessions`] measures them together, in the mix of a server with heartbeats.

mod batches;
mod phases;
mod reusable;
mod sessions;

use clap::{Parser, ValueEnum};
use encke_wheel_bench::args::Common;
use encke_wheel_bench::deadlines::Deadlines;
use encke_wheel_bench::plot::Axes;
use encke_wheel_bench::report::{BenchReport, Plot};
use encke_wheel_bench::statistics::{ns_each, short};
use encke_wheel_bench::structures::reusable::{ReusableStructure, ReusableVisitor, reusable_structures};
use encke_wheel_bench::structures::{Limits, Structure, StructureVisitor, structures};
use encke_wheel_bench::verify::verify;
use encke_wheel_bench::{BenchError, table};

use batches::Batches;
use phases::PhaseTimes;

/// Nanoseconds per operation, for every scheme and for common alternatives from other crates
#[derive(Debug, Parser)]
struct OperationsArgs {
    #[command(flatten)]
    common: Common,

    /// Maximum number of timers
    #[arg(long)]
    max_timers: Option<u32>,

    /// Measure only these operations, separated by commas
    #[arg(long, value_delimiter = ',', value_enum)]
    ops: Vec<Op>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Op {
    /// Setting a timer, in newly allocated memory
    Schedule,
    /// Moving a timer to another deadline
    Reschedule,
    /// Cancelling a timer
    Cancel,
    /// Work that cancelling defers until time advances
    Sweep,
    /// Setting a timer, in reused memory
    Refill,
    /// Advancing time until a timer expires
    Expire,
    /// All of these, in the mix of sessions with heartbeats
    Sessions,
    /// Registering and arming a reusable timer, in newly allocated memory
    Register,
    /// Arming a reusable timer that is already armed
    Arm,
    /// Arming a reusable timer within a range that already contains its deadline, which changes nothing
    Within,
    /// Disarming a reusable timer
    Disarm,
    /// Advancing time until a reusable timer expires and the caller receives its value
    Lend,
    /// Unregistering a reusable timer
    Unregister,
}

impl Op {
    const ONE_SHOT: [Op; 7] =
        [Op::Schedule, Op::Reschedule, Op::Cancel, Op::Sweep, Op::Refill, Op::Expire, Op::Sessions];

    const REUSABLE: [Op; 6] = [Op::Register, Op::Arm, Op::Within, Op::Disarm, Op::Lend, Op::Unregister];

    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

fn main() -> Result<(), BenchError> {
    let mut args = OperationsArgs::parse();
    if args.ops.is_empty() {
        args.ops = Op::value_variants().to_vec();
    }
    let mut report = BenchReport::new("operations", "timers");
    let mut subjects = OperationsSubjects { common: &args.common, all: Vec::new(), reusable: Vec::new() };
    structures(&mut subjects);
    subjects.add_batches();
    reusable_structures(&mut subjects);
    let OperationsSubjects { all: subjects, reusable, .. } = subjects;

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
            for subject in reusable.iter().filter(|_| args.ops.iter().any(|op| Op::REUSABLE.contains(op))) {
                table::progress(format_args!(
                    "{} reusable timers, run {run}: {}",
                    short(timers.into()),
                    subject.name
                ));
                measure_reusable(subject, &args, &deadlines, &mut report);
            }
        }
    }
    let titles: Vec<(Op, String)> = args.ops.iter().map(|&op| (op, op.name())).collect();
    let files: Vec<String> = titles.iter().map(|(_, name)| format!("operations-{name}.svg")).collect();
    let plots: Vec<Plot<'_>> =
        titles.iter().zip(&files).map(|((_, op), file)| Plot { file, op, axes: axes(op) }).collect();
    report.finish(&args.common, &plots)
}

fn axes(op: &str) -> Axes {
    Axes { title: format!("{op}: nanoseconds per operation"), x: "timers outstanding", y: "ns" }
}

/// A structure to be measured, as monomorphised functions.
struct OperationsSubject {
    name: &'static str,
    limits: Limits,
    ops: &'static [Op],
    phases: fn(&Deadlines, bool) -> PhaseTimes,
    sessions: fn(u32, u64) -> sessions::Outcome,
}

/// An implementation of reusable timers, as a monomorphised function.
struct ReusableSubject {
    name: &'static str,
    limits: Limits,
    measure: fn(&Deadlines) -> reusable::ReusableTimes,
}

struct OperationsSubjects<'a> {
    common: &'a Common,
    all: Vec<OperationsSubject>,
    reusable: Vec<ReusableSubject>,
}

impl ReusableVisitor for OperationsSubjects<'_> {
    fn visit<S: ReusableStructure>(&mut self) {
        if self.common.wants(S::NAME) {
            let measure = reusable::measure::<S>;
            self.reusable.push(ReusableSubject { name: S::NAME, limits: S::LIMITS, measure });
        }
    }
}

impl OperationsSubjects<'_> {
    /// Adds `expire_batch`, which only the expire operation uses.
    fn add_batches(&mut self) {
        self.add::<Batches>(&[Op::Expire]);
    }

    fn add<S: Structure>(&mut self, ops: &'static [Op]) {
        if !self.common.wants(S::NAME) {
            return;
        }
        verify::<S>();
        let (phases, sessions) = (phases::measure::<S>, sessions::measure::<S>);
        self.all.push(OperationsSubject { name: S::NAME, limits: S::LIMITS, ops, phases, sessions });
    }
}

impl StructureVisitor for OperationsSubjects<'_> {
    fn visit<S: Structure>(&mut self) {
        self.add::<S>(&Op::ONE_SHOT);
    }
}

fn measure(
    subject: &OperationsSubject,
    args: &OperationsArgs,
    deadlines: &Deadlines,
    checksum_of_all: &mut Option<u64>,
    report: &mut BenchReport,
) {
    let timers = u32::try_from(deadlines.first.len()).expect("derived from a u32");
    let wants = |op| args.ops.contains(&op) && subject.ops.contains(&op);
    let changes = timers <= subject.limits.change;
    let expires = timers <= subject.limits.expire;
    if changes && Op::ONE_SHOT.iter().any(|&op| op != Op::Sessions && wants(op)) {
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
            assert!(first.is_none_or(|first| first == checksum), "the runs differ");
            assert_eq!(
                *checksum_of_all.get_or_insert(checksum),
                checksum,
                "{} differs from the other schemes",
                subject.name
            );
        }
    }
}

fn measure_reusable(
    subject: &ReusableSubject,
    args: &OperationsArgs,
    deadlines: &Deadlines,
    report: &mut BenchReport,
) {
    let timers = u32::try_from(deadlines.first.len()).expect("derived from a u32");
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
