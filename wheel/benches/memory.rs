//! How many bytes a timer takes, and how many are kept after a peak.
//!
//! An allocator counts what is asked of it and not given back: the sizes asked for, without what the allocator adds. It is
//! why this is not measured along with times. From bytes per timer the value is taken off, 8 bytes, which every structure
//! has to keep somewhere.
//!
//! ```text
//! set      so many timers, random deadlines, from empty
//! moved    each was moved to another deadline since, in random order
//! stay     so many timers that stay, armed and then armed anew, in random order
//! peak     nine times as many came on top, nearer, and have come out: bytes by those before the peak
//! ```

mod support;

use std::alloc::System;

use cap::Cap;
use clap::Parser;

use support::args::Common;
use support::deadlines::{Deadlines, SPAN};
use support::plot::Axes;
use support::report::{Plot, Report};
use support::statistics::{ratio, short};
use support::structures::standing::{StandingVisitor, Stays, standing};
use support::structures::{Limits, Structure, Visitor, structures};
use support::verify::verify;
use support::{Failure, table};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// What a value takes.
const VALUE: u64 = 8;

/// How many times as many timers the peak has.
const PEAK: u32 = 9;

/// Bytes per timer, and what is left of a peak
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    common: Common,

    /// The largest number of timers
    #[arg(long)]
    max_timers: Option<u32>,
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let mut report = Report::new("memory", "timers");
    let mut subjects = Subjects { common: &args.common, all: Vec::new(), standing: Vec::new() };
    structures(&mut subjects);
    standing(&mut subjects);
    let Subjects { all: subjects, standing: stays, .. } = subjects;

    let max = args.max_timers.unwrap_or(args.common.either(1_000_000, 10_000));
    for timers in [1_000, 10_000, 100_000, 1_000_000].into_iter().filter(|&timers| timers <= max) {
        let deadlines = Deadlines::random(timers, timers.into());
        let each_of =
            |bytes: u64, values: u32| ratio(bytes.saturating_sub(VALUE * u64::from(values)), timers.into());
        let each = |bytes| each_of(bytes, timers);
        for subject in stays.iter().filter(|subject| timers <= subject.limits.change) {
            table::progress(format_args!("{} timers that stay: {}", short(timers.into()), subject.name));
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
    let axes = Axes { title: "bytes per timer, besides the value".into(), x: "timers", y: "bytes" };
    report.tell(&args.common, &[Plot { file: "memory-moved.svg", op: "moved", axes }])
}

/// A structure, with its type in the functions.
struct Subject {
    name: &'static str,
    limits: Limits,
    bytes: fn(&Deadlines) -> Bytes,
    peak: fn(&Deadlines) -> (u64, u64),
}

/// Timers that stay, with their type in the function.
struct StandingSubject {
    name: &'static str,
    limits: Limits,
    timers_each: u32,
    bytes: fn(&Deadlines) -> u64,
}

struct Subjects<'a> {
    common: &'a Common,
    all: Vec<Subject>,
    standing: Vec<StandingSubject>,
}

impl StandingVisitor for Subjects<'_> {
    fn visit<S: Stays>(&mut self) {
        if self.common.wants(S::NAME) {
            let bytes = standing_bytes::<S>;
            self.standing.push(StandingSubject {
                name: S::NAME,
                limits: S::LIMITS,
                timers_each: S::TIMERS_EACH,
                bytes,
            });
        }
    }
}

impl Visitor for Subjects<'_> {
    fn visit<S: Structure>(&mut self) {
        if self.common.wants(S::NAME) {
            verify::<S>();
            let (bytes, peak) = (bytes::<S>, peak::<S>);
            self.all.push(Subject { name: S::NAME, limits: S::LIMITS, bytes, peak });
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
        assert!(known, "{}: a timer to move was not there", S::NAME);
    }
    Bytes { set, moved: allocated() - before }
}

fn standing_bytes<S: Stays>(deadlines: &Deadlines) -> u64 {
    let mut keys = Vec::with_capacity(deadlines.first.len());
    let before = allocated();
    let mut timers = S::new(u64::from(SPAN));
    for (number, &deadline) in (0..).zip(&deadlines.first) {
        keys.push(timers.register(deadline.into(), number));
    }
    for &number in &deadlines.order {
        let known = timers.arm(keys[number as usize], deadlines.second[number as usize].into());
        assert!(known, "{}: a timer to arm was not there", S::NAME);
    }
    allocated() - before
}

/// The bytes before and after the peak.
fn peak<S: Structure>(deadlines: &Deadlines) -> (u64, u64) {
    let timers = deadlines.first.len() as u64;
    let before = allocated();
    let span = u64::from(SPAN);
    let mut structure = S::new(3 * span);
    // A structure that is late must not give out the peak after the others.
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
        assert!(due.value >= timers, "{}: a timer came out early", S::NAME);
        count += 1;
    }
    assert_eq!(count, timers * u64::from(PEAK), "{}: timers did not come out", S::NAME);
    (alone, allocated() - before)
}

fn allocated() -> u64 {
    ALLOCATOR.allocated() as u64
}
