//! The workload of J. Snellman's Ratas (2016), anew from its description: pairs of endpoints that send each other
//! messages, with timers of every kind, through 300 s of virtual time in ticks of 20 µs.
//!
//! [`units`] is the workload. All exact schemes receive the same messages at the same ticks, whatever the order of timers
//! within a tick, and that is compared. Setting up the pairs happens within the measured time, since it is spread over the
//! first second; making room for them does not.

mod owned;
#[path = "../support/mod.rs"]
mod support;
mod timers;
mod units;

use std::io::{self, Write};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use encke_wheel::{Owners, Tick};

use owned::PairsOwned;
use support::args::Common;
use support::plot::Axes;
use support::report::{Plot, Report};
use support::statistics::{ns_each, short};
use support::structures::{Scheme, SchemeVisitor, schemes};
use support::{Failure, table};
use timers::{OneShot, Standing};
use units::{CLOSE, END, Pairs, PairsWith, SECOND, SLEEP, Totals};

/// Ratas's workload: time per message and per work unit, for every scheme
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    common: Common,

    /// How many work units, which are pairs of endpoints; several separated by commas
    #[arg(long, value_delimiter = ',')]
    units: Vec<u32>,

    /// Whether idle timers may be anywhere within a second
    #[arg(long, value_enum, default_value_t = Ranges::On)]
    ranges: Ranges,

    /// Give up on a scheme that takes longer, in seconds
    #[arg(long, default_value_t = 300)]
    limit: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Ranges {
    On,
    Off,
}

fn main() -> Result<(), Failure> {
    let mut args = Args::parse();
    if args.units.is_empty() {
        args.units = args.common.either(vec![1_000, 4_000, 16_000, 64_000, 256_000], vec![10]);
    }
    let limit = Duration::from_secs(args.common.either(args.limit, args.limit.min(1)));
    let mut report = Report::new("work_units", "units");
    let mut subjects = Subjects { common: &args.common, all: Vec::new() };
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
                        "{} has another history",
                        subject.name
                    );
                }
                add(&mut report, &args, subject.name, units, &outcome);
                true
            });
        }
        if let Some(Totals { messages, digest }) = expected {
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
    report.tell(&args.common, &plots)
}

fn add(report: &mut Report, args: &Args, name: &str, units: u32, outcome: &Outcome) {
    let Outcome { time, totals, exact } = outcome;
    report.add("unit", "ns", name, units.into(), ns_each(*time, units.into()));
    let extra = report.add("message", "ns", name, units.into(), ns_each(*time, totals.messages));
    extra.insert("ranges".into(), (args.ranges == Ranges::On).into());
    extra.insert("messages".into(), totals.messages.into());
    extra.insert("checksum".into(), format!("{:016x}", totals.digest).into());
    extra.insert("exact".into(), (*exact).into());
}

/// A scheme, with its type in the function.
struct Subject {
    name: &'static str,
    measure: fn(u32, bool, Duration) -> Option<Outcome>,
}

struct Outcome {
    time: Duration,
    totals: Totals,
    /// Whether timers come out at their ticks: those of requests, which make the history.
    exact: bool,
}

struct Subjects<'a> {
    common: &'a Common,
    all: Vec<Subject>,
}

impl SchemeVisitor<u32> for Subjects<'_> {
    fn visit<Q: Scheme<u32>>(&mut self) {
        if self.common.wants(Q::NAME) {
            self.all.push(Subject { name: Q::NAME, measure: measure_one_shot::<Q> });
        }
    }
}

impl Subjects<'_> {
    /// Endpoints that live in the wheel, with their timers; and endpoints that do not, with timers that stay.
    fn add_owners(&mut self) {
        if self.common.wants(STANDING) {
            self.all.push(Subject { name: STANDING, measure: measure_standing });
        }
        if self.common.wants(OWNERS) {
            self.all.push(Subject { name: OWNERS, measure: measure_owners });
        }
    }
}

const OWNERS: &str = "Owners";

/// Of one timer each.
const STANDING: &str = "Owners<u32>";

fn measure_one_shot<Q: Scheme<u32>>(units: u32, ranges: bool, limit: Duration) -> Option<Outcome> {
    let timers = OneShot(Q::with_reach(CLOSE));
    if ranges {
        measure(PairsWith::<_, true>::new(timers, units), limit)
    } else {
        measure(PairsWith::<_, false>::new(timers, units), limit)
    }
}

fn measure_standing(units: u32, ranges: bool, limit: Duration) -> Option<Outcome> {
    let timers = Standing(Owners::new(Tick(0)));
    if ranges {
        measure(PairsWith::<_, true>::new(timers, units), limit)
    } else {
        measure(PairsWith::<_, false>::new(timers, units), limit)
    }
}

fn measure_owners(units: u32, ranges: bool, limit: Duration) -> Option<Outcome> {
    if ranges {
        measure(PairsOwned::<true>::new(units), limit)
    } else {
        measure(PairsOwned::<false>::new(units), limit)
    }
}

/// `None` if it takes longer than the limit.
fn measure(mut pairs: impl Pairs, limit: Duration) -> Option<Outcome> {
    let clock = Instant::now();
    while run_for_a_second(&mut pairs) {
        if clock.elapsed() > limit {
            return None;
        }
    }
    Some(Outcome { time: clock.elapsed(), exact: pairs.is_exact(), totals: pairs.totals() })
}

/// A second of virtual time. Says whether there is more.
fn run_for_a_second<P: Pairs>(pairs: &mut P) -> bool {
    let until = pairs.now() + SECOND;
    while pairs.now() < until {
        let at_most = (pairs.now() + SLEEP).min(until).min(pairs.next_beginning());
        let next = pairs.next_wakeup(Tick(at_most)).map_or(at_most, |tick| tick.0);
        pairs.drive(next);
        while pairs.next_beginning() <= pairs.now() {
            pairs.begin();
        }
    }
    until < END
}
