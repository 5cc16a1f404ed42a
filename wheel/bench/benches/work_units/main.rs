//! The workload of J. Snellman's Ratas (2016), reimplemented from its description: pairs of endpoints that
//! exchange messages, with timers of every kind, over 300 s of virtual time in ticks of 20 µs.
//!
//! [`units`] implements the workload. All exact schemes receive the same messages at the same ticks,
//! regardless of the order of timers within a tick, and the benchmark checks this. The measured time includes
//! setting up the pairs, which is spread over the first second, but not allocating memory for them.

mod owned;
mod timers;
mod units;

use std::io::{self, Write};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use encke_wheel::{Owners, Tick};
use encke_wheel_bench::args::Common;
use encke_wheel_bench::plot::Axes;
use encke_wheel_bench::report::{BenchReport, Plot};
use encke_wheel_bench::statistics::{ns_each, short};
use encke_wheel_bench::structures::{BenchScheme, SchemeVisitor, schemes};
use encke_wheel_bench::{BenchError, table};

use owned::PairsOwned;
use timers::{OneShot, Registered};
use units::{CLOSE, END, MessageTotals, Pairs, PairsWith, SECOND, SLEEP};

/// Time per message and per work unit of Ratas's workload, for every scheme
#[derive(Debug, Parser)]
struct WorkUnitsArgs {
    #[command(flatten)]
    common: Common,

    /// Number of work units, which are pairs of endpoints; several numbers separated by commas
    #[arg(long, value_delimiter = ',')]
    units: Vec<u32>,

    /// Whether idle timers may expire anywhere within a second
    #[arg(long, value_enum, default_value_t = Ranges::On)]
    ranges: Ranges,

    /// Give up on a scheme that takes longer than this, in seconds
    #[arg(long, default_value_t = 300)]
    limit: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Ranges {
    On,
    Off,
}

fn main() -> Result<(), BenchError> {
    let mut args = WorkUnitsArgs::parse();
    if args.units.is_empty() {
        args.units = args.common.either(vec![1_000, 4_000, 16_000, 64_000, 256_000], vec![10]);
    }
    let limit = Duration::from_secs(args.common.either(args.limit, args.limit.min(1)));
    let mut report = BenchReport::new("work_units", "units");
    let mut subjects = WorkUnitsSubjects { common: &args.common, all: Vec::new() };
    schemes(&mut subjects);
    subjects.add_owners();
    let mut subjects = subjects.all;

    for &units in &args.units {
        let mut expected = None;
        for run in 0..args.common.runs(1) {
            subjects.retain(|subject| {
                table::progress(format_args!("{} units, run {run}: {}", short(units.into()), subject.name));
                let Some(outcome) = (subject.measure)(units, args.ranges == Ranges::On, limit) else {
                    table::progress(format_args!("{} took longer than {limit:?}", subject.name));
                    return false;
                };
                if outcome.exact {
                    assert_eq!(
                        *expected.get_or_insert(outcome.totals),
                        outcome.totals,
                        "{} differs from the other schemes",
                        subject.name
                    );
                }
                add(&mut report, &args, subject.name, units, &outcome);
                true
            });
        }
        if let Some(MessageTotals { messages, digest }) = expected {
            let units = short(units.into());
            writeln!(io::stdout(), "{units} units: {messages} messages received, checksum {digest:016x}")?;
        }
    }
    let axes = |title: &str| Axes { title: title.to_owned(), x: "work units", y: "ns" };
    let plots = [
        Plot {
            file: "work-units-message.svg",
            op: "message",
            axes: axes("work units: nanoseconds per message"),
        },
        Plot { file: "work-units-unit.svg", op: "unit", axes: axes("work units: nanoseconds per unit") },
    ];
    report.finish(&args.common, &plots)
}

fn add(report: &mut BenchReport, args: &WorkUnitsArgs, name: &str, units: u32, outcome: &WorkUnitsOutcome) {
    let WorkUnitsOutcome { time, totals, exact } = outcome;
    report.add("unit", "ns", name, units.into(), ns_each(*time, units.into()));
    let extra = report.add("message", "ns", name, units.into(), ns_each(*time, totals.messages));
    extra.insert("ranges".into(), (args.ranges == Ranges::On).into());
    extra.insert("messages".into(), totals.messages.into());
    extra.insert("checksum".into(), format!("{:016x}", totals.digest).into());
    extra.insert("exact".into(), (*exact).into());
}

/// A scheme to be measured, as a monomorphised function.
struct WorkUnitsSubject {
    name: &'static str,
    measure: fn(u32, bool, Duration) -> Option<WorkUnitsOutcome>,
}

struct WorkUnitsOutcome {
    time: Duration,
    totals: MessageTotals,
    /// Whether every request is sent on time, so that all exact schemes have the same totals.
    exact: bool,
}

struct WorkUnitsSubjects<'a> {
    common: &'a Common,
    all: Vec<WorkUnitsSubject>,
}

impl SchemeVisitor<u32> for WorkUnitsSubjects<'_> {
    fn visit<Q: BenchScheme<u32>>(&mut self) {
        if self.common.wants(Q::NAME) {
            self.all.push(WorkUnitsSubject { name: Q::NAME, measure: measure_one_shot::<Q> });
        }
    }
}

impl WorkUnitsSubjects<'_> {
    /// Adds two variants: endpoints that live in the wheel with their timers, and endpoints outside the wheel
    /// with reusable timers.
    fn add_owners(&mut self) {
        if self.common.wants(REUSABLE) {
            self.all.push(WorkUnitsSubject { name: REUSABLE, measure: measure_reusable });
        }
        if self.common.wants(OWNERS) {
            self.all.push(WorkUnitsSubject { name: OWNERS, measure: measure_owners });
        }
    }
}

const OWNERS: &str = "Owners";

/// Name of the variant whose reusable timers are owners with one timer each.
const REUSABLE: &str = "Owners<u32>";

fn measure_one_shot<Q: BenchScheme<u32>>(
    units: u32,
    ranges: bool,
    limit: Duration,
) -> Option<WorkUnitsOutcome> {
    let timers = OneShot(Q::with_reach(CLOSE));
    if ranges {
        measure(PairsWith::<_, true>::new(timers, units), limit)
    } else {
        measure(PairsWith::<_, false>::new(timers, units), limit)
    }
}

fn measure_reusable(units: u32, ranges: bool, limit: Duration) -> Option<WorkUnitsOutcome> {
    let timers = Registered(Owners::new(Tick(0)));
    if ranges {
        measure(PairsWith::<_, true>::new(timers, units), limit)
    } else {
        measure(PairsWith::<_, false>::new(timers, units), limit)
    }
}

fn measure_owners(units: u32, ranges: bool, limit: Duration) -> Option<WorkUnitsOutcome> {
    if ranges {
        measure(PairsOwned::<true>::new(units), limit)
    } else {
        measure(PairsOwned::<false>::new(units), limit)
    }
}

fn measure(mut pairs: impl Pairs, limit: Duration) -> Option<WorkUnitsOutcome> {
    let clock = Instant::now();
    while run_for_a_second(&mut pairs) {
        if clock.elapsed() > limit {
            return None;
        }
    }
    Some(WorkUnitsOutcome { time: clock.elapsed(), exact: pairs.is_exact(), totals: pairs.totals() })
}

/// Runs for a second of virtual time. Returns whether the run continues.
fn run_for_a_second<P: Pairs>(pairs: &mut P) -> bool {
    let until = pairs.now() + SECOND;
    while pairs.now() < until {
        let at_most = (pairs.now() + SLEEP).min(until).min(pairs.next_start());
        let next = pairs.next_wakeup(Tick(at_most)).map_or(at_most, |tick| tick.0);
        pairs.drive(next);
        while pairs.next_start() <= pairs.now() {
            pairs.begin();
        }
    }
    until < END
}
