//! Figure 9 of Varghese & Lauck (1997) on the machine at hand.
//!
//! Their test had a number of outstanding callouts, at random times far in the future, then set and cancelled one more
//! 10,000 times, each time at a random time later than all others. BSD's sorted list was searched from the front and took
//! time in proportion to the callouts; their Scheme 6 did not. [`OrderedList`](encke_wheel::schemes::OrderedList) is
//! searched from the rear, where a latest timer is found at once, so there is a second operation: set and cancel at a
//! random time among the others.
//!
//! A structure is left out of larger sizes once setting up one took too long, or one point did.

mod support;

use std::hint::black_box;
use std::time::{Duration, Instant};

use clap::Parser;

use support::args::Common;
use support::plot::Axes;
use support::random::Random;
use support::report::{Plot, Report};
use support::statistics::short;
use support::structures::{Structure, Visitor, structures};
use support::verify::verify;
use support::{Failure, table};

/// The others lie between so many ticks ahead and twice as many.
const FAR: u32 = 1 << 20;

/// Time for 10,000 pairs of set and cancel, with so many timers outstanding
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    common: Common,

    /// How many pairs
    #[arg(long, default_value_t = 10_000)]
    pairs: u32,

    /// Leave a structure out of larger sizes once a point takes longer, in milliseconds
    #[arg(long, default_value_t = 5_000)]
    limit: u64,
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let mut report = Report::new("figure9", "timers");
    let mut subjects = Subjects { common: &args.common, all: Vec::new() };
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
    report.tell(&args.common, &plots)
}

const LAST: &str = "last";
const AMONG: &str = "among";

/// A structure, with its type in the function.
struct Subject {
    name: &'static str,
    measure: fn(u32, u32) -> [(&'static str, Duration); 2],
}

struct Subjects<'a> {
    common: &'a Common,
    all: Vec<Subject>,
}

impl Visitor for Subjects<'_> {
    fn visit<S: Structure>(&mut self) {
        if self.common.wants(S::NAME) {
            verify::<S>();
            self.all.push(Subject { name: S::NAME, measure: measure::<S> });
        }
    }
}

fn measure<S: Structure>(outstanding: u32, pairs: u32) -> [(&'static str, Duration); 2] {
    let mut random = Random(outstanding.into());
    let mut structure = S::new(u64::from(FAR) * 3);
    let mut deadlines: Vec<u32> = (0..outstanding).map(|_| FAR + random.below(FAR)).collect();
    // So that a sorted list takes them without a search.
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
        assert!(known, "{}: a timer to cancel was not there", S::NAME);
        (op, time)
    })
}
