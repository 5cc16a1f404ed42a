//! Figure 9 of Varghese & Lauck (1997), reproduced on the current machine.
//!
//! Their test had a number of outstanding callouts at random times far in the future, then set and cancelled
//! one more callout 10,000 times, each time at a random time later than all others. BSD's sorted list was
//! searched from the front and took time in proportion to the number of callouts; their Scheme 6 did not.
//! [`OrderedList`](encke_wheel::schemes::OrderedList) is searched from the rear and finds the position of the
//! latest timer immediately. The benchmark therefore has a second operation: set and cancel at a random time
//! among the others.
//!
//! A structure is excluded from larger sizes once a data point, including its setup, takes too long.

use std::hint::black_box;
use std::time::{Duration, Instant};

use clap::Parser;
use encke_wheel_bench::args::Common;
use encke_wheel_bench::plot::Axes;
use encke_wheel_bench::random::Random;
use encke_wheel_bench::report::{BenchReport, Plot};
use encke_wheel_bench::statistics::short;
use encke_wheel_bench::structures::{Structure, StructureVisitor, structures};
use encke_wheel_bench::verify::verify;
use encke_wheel_bench::{BenchError, table};

/// Minimum number of ticks that the other timers are ahead. The maximum is twice as many.
const FAR: u32 = 1 << 20;

/// Time for 10,000 pairs of set and cancel, by number of outstanding timers
#[derive(Debug, Parser)]
struct Figure9Args {
    #[command(flatten)]
    common: Common,

    /// Number of pairs
    #[arg(long, default_value_t = 10_000)]
    pairs: u32,

    /// Exclude a structure from larger sizes once a point takes longer than this, in milliseconds
    #[arg(long, default_value_t = 5_000)]
    limit: u64,
}

fn main() -> Result<(), BenchError> {
    let args = Figure9Args::parse();
    let mut report = BenchReport::new("figure9", "timers");
    let mut subjects = Figure9Subjects { common: &args.common, all: Vec::new() };
    structures(&mut subjects);
    let mut subjects = subjects.all;

    let limit = Duration::from_millis(args.common.either(args.limit, args.limit.min(100)));
    let sizes: &[u32] = args.common.either(
        &[0, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 100_000, 1_000_000],
        &[0, 100, 1_000, 10_000],
    );
    for &outstanding in sizes {
        let mut slow = Vec::new();
        for run in 0..args.common.runs(5) {
            for subject in &subjects {
                if slow.contains(&subject.name) {
                    continue;
                }
                table::progress(format_args!(
                    "{} outstanding, run {run}: {}",
                    short(outstanding.into()),
                    subject.name
                ));
                let began = Instant::now();
                for (op, time) in (subject.measure)(outstanding, args.pairs) {
                    let ms = time.as_secs_f64() * 1e3;
                    let extra = report.add(op, "ms", subject.name, outstanding.into(), ms);
                    extra.insert("pairs".into(), args.pairs.into());
                }
                if began.elapsed() > limit {
                    slow.push(subject.name);
                    table::progress(format_args!("{}: larger sizes would take too long", subject.name));
                }
            }
        }
        subjects.retain(|subject| !slow.contains(&subject.name));
    }
    let axes = |title: &str| Axes {
        title: format!("{} set/cancel pairs, {title}", args.pairs),
        x: "timers outstanding",
        y: "ms",
    };
    let plots = [
        Plot { file: "figure9-last.svg", op: LAST, axes: axes("later than all others") },
        Plot { file: "figure9-among.svg", op: AMONG, axes: axes("among the others") },
    ];
    report.finish(&args.common, &plots)
}

const LAST: &str = "last";
const AMONG: &str = "among";

/// A structure to be measured, as a monomorphised function.
struct Figure9Subject {
    name: &'static str,
    measure: fn(u32, u32) -> [(&'static str, Duration); 2],
}

struct Figure9Subjects<'a> {
    common: &'a Common,
    all: Vec<Figure9Subject>,
}

impl StructureVisitor for Figure9Subjects<'_> {
    fn visit<S: Structure>(&mut self) {
        if self.common.wants(S::NAME) {
            verify::<S>();
            self.all.push(Figure9Subject { name: S::NAME, measure: measure::<S> });
        }
    }
}

fn measure<S: Structure>(outstanding: u32, pairs: u32) -> [(&'static str, Duration); 2] {
    let mut random = Random(outstanding.into());
    let mut structure = S::new(u64::from(FAR) * 3);
    let mut deadlines: Vec<u32> = (0..outstanding).map(|_| FAR + random.below(FAR)).collect();
    // Sort the deadlines, so that an ordered list accepts them without a search.
    deadlines.sort_unstable();
    for (id, &deadline) in (0..).zip(&deadlines) {
        structure.schedule(deadline.into(), id);
    }
    [LAST, AMONG].map(|op| {
        let from = if op == LAST { 2 * FAR } else { FAR };
        let deadlines: Vec<u32> = (0..pairs).map(|_| from + random.below(FAR)).collect();
        let mut known = true;
        let clock = Instant::now();
        for deadline in deadlines {
            let key = structure.schedule(u64::from(deadline), u64::from(outstanding));
            known &= structure.cancel(black_box(key));
        }
        let time = clock.elapsed();
        assert!(known, "{}: the timer to cancel does not exist", S::NAME);
        (op, time)
    })
}
