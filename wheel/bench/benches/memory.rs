//! Bytes per timer, and memory retained after a peak.
//!
//! A global allocator counts the bytes that have been requested and not freed, without the allocator's own
//! overhead. The other benchmarks do not use this allocator, because counting takes time. The 8 bytes of the
//! value, which every structure has to store, are subtracted from the bytes per timer.
//!
//! ```text
//! set      timers with random deadlines, from empty
//! moved    after moving each to another deadline, in random order
//! stay     reusable timers, armed and then armed again, in random order
//! peak     memory after nine times as many timers with earlier deadlines were added and have expired,
//!          relative to the memory before
//! ```

use std::alloc::System;

use cap::Cap;
use clap::Parser;
use encke_wheel_bench::args::Common;
use encke_wheel_bench::deadlines::{Deadlines, SPAN};
use encke_wheel_bench::plot::Axes;
use encke_wheel_bench::report::{BenchReport, Plot};
use encke_wheel_bench::statistics::{ratio, short};
use encke_wheel_bench::structures::reusable::{ReusableStructure, ReusableVisitor, reusable_structures};
use encke_wheel_bench::structures::{Limits, Structure, StructureVisitor, structures};
use encke_wheel_bench::verify::verify;
use encke_wheel_bench::{BenchError, table};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const VALUE: u64 = 8;

const PEAK: u32 = 9;

/// Bytes per timer, and memory retained after a peak
#[derive(Debug, Parser)]
struct MemoryArgs {
    #[command(flatten)]
    common: Common,

    /// Maximum number of timers
    #[arg(long)]
    max_timers: Option<u32>,
}

fn main() -> Result<(), BenchError> {
    let args = MemoryArgs::parse();
    let mut report = BenchReport::new("memory", "timers");
    let mut subjects = MemorySubjects { common: &args.common, all: Vec::new(), reusable: Vec::new() };
    structures(&mut subjects);
    reusable_structures(&mut subjects);
    let MemorySubjects { all: subjects, reusable, .. } = subjects;

    let max = args.max_timers.unwrap_or(args.common.either(1_000_000, 10_000));
    for timers in [1_000, 10_000, 100_000, 1_000_000].into_iter().filter(|&timers| timers <= max) {
        let deadlines = Deadlines::random(timers, timers.into());
        let each_of =
            |bytes: u64, values: u32| ratio(bytes.saturating_sub(VALUE * u64::from(values)), timers.into());
        let each = |bytes| each_of(bytes, timers);
        for subject in reusable.iter().filter(|subject| timers <= subject.limits.change) {
            table::progress(format_args!("{} reusable timers: {}", short(timers.into()), subject.name));
            let bytes = (subject.bytes)(&deadlines);
            report.add(
                "stay",
                "bytes",
                subject.name,
                timers.into(),
                each_of(bytes, timers / subject.timers_each),
            );
        }
        for subject in subjects.iter().filter(|subject| timers <= subject.limits.change) {
            table::progress(format_args!("{} timers: {}", short(timers.into()), subject.name));
            let bytes = (subject.bytes)(&deadlines);
            report.add("set", "bytes", subject.name, timers.into(), each(bytes.set));
            report.add("moved", "bytes", subject.name, timers.into(), each(bytes.moved));
            if timers.saturating_mul(PEAK + 1) <= subject.limits.expire {
                let (before, after) = (subject.peak)(&deadlines);
                let extra = report.add("peak", "times", subject.name, timers.into(), ratio(after, before));
                extra.insert("before".into(), before.into());
                extra.insert("after".into(), after.into());
            }
        }
    }
    let axes = Axes { title: "bytes per timer, without the value".into(), x: "timers", y: "bytes" };
    report.finish(&args.common, &[Plot { file: "memory-moved.svg", op: "moved", axes }])
}

/// A structure to be measured, as monomorphised functions.
struct MemorySubject {
    name: &'static str,
    limits: Limits,
    bytes: fn(&Deadlines) -> Bytes,
    peak: fn(&Deadlines) -> (u64, u64),
}

/// An implementation of reusable timers, as a monomorphised function.
struct ReusableSubject {
    name: &'static str,
    limits: Limits,
    timers_each: u32,
    bytes: fn(&Deadlines) -> u64,
}

struct MemorySubjects<'a> {
    common: &'a Common,
    all: Vec<MemorySubject>,
    reusable: Vec<ReusableSubject>,
}

impl ReusableVisitor for MemorySubjects<'_> {
    fn visit<S: ReusableStructure>(&mut self) {
        if self.common.wants(S::NAME) {
            let bytes = reusable_bytes::<S>;
            self.reusable.push(ReusableSubject {
                name: S::NAME,
                limits: S::LIMITS,
                timers_each: S::TIMERS_EACH,
                bytes,
            });
        }
    }
}

impl StructureVisitor for MemorySubjects<'_> {
    fn visit<S: Structure>(&mut self) {
        if self.common.wants(S::NAME) {
            verify::<S>();
            let (bytes, peak) = (bytes::<S>, peak::<S>);
            self.all.push(MemorySubject { name: S::NAME, limits: S::LIMITS, bytes, peak });
        }
    }
}

struct Bytes {
    set: u64,
    moved: u64,
}

fn bytes<S: Structure>(deadlines: &Deadlines) -> Bytes {
    let mut keys = Vec::with_capacity(deadlines.first.len());
    let before = allocated();
    let mut structure = S::new(u64::from(SPAN));
    for (id, &deadline) in (0..).zip(&deadlines.first) {
        keys.push(structure.schedule(deadline.into(), id));
    }
    let set = allocated() - before;
    for &id in &deadlines.order {
        let known = structure.reschedule(keys[id as usize], deadlines.second[id as usize].into());
        assert!(known, "{}: the timer to move does not exist", S::NAME);
    }
    Bytes { set, moved: allocated() - before }
}

fn reusable_bytes<S: ReusableStructure>(deadlines: &Deadlines) -> u64 {
    let mut keys = Vec::with_capacity(deadlines.first.len());
    let before = allocated();
    let mut timers = S::new(u64::from(SPAN));
    for (number, &deadline) in (0..).zip(&deadlines.first) {
        keys.push(timers.register(deadline.into(), number));
    }
    for &number in &deadlines.order {
        let known = timers.arm(keys[number as usize], deadlines.second[number as usize].into());
        assert!(known, "{}: the timer to arm does not exist", S::NAME);
    }
    allocated() - before
}

fn peak<S: Structure>(deadlines: &Deadlines) -> (u64, u64) {
    let timers = deadlines.first.len() as u64;
    let before = allocated();
    let span = u64::from(SPAN);
    let mut structure = S::new(3 * span);
    // Set the other timers late enough that the timers of the peak expire first, even in an inexact
    // structure.
    let stay = span + structure.precision(span);
    for (id, &deadline) in (0..).zip(&deadlines.first) {
        structure.schedule(stay + u64::from(deadline), id);
    }
    let alone = allocated() - before;
    for (id, &deadline) in (timers..timers * u64::from(PEAK + 1)).zip(deadlines.second.iter().cycle()) {
        structure.schedule(deadline.into(), id);
    }
    let mut count = 0;
    while let Some(due) = structure.expire_next(stay) {
        assert!(due.value >= timers, "{}: a timer expired early", S::NAME);
        count += 1;
    }
    assert_eq!(count, timers * u64::from(PEAK), "{}: timers did not expire", S::NAME);
    (alone, allocated() - before)
}

fn allocated() -> u64 {
    ALLOCATOR.allocated() as u64
}
