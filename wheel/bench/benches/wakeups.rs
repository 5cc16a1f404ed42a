//! How often a sleeping host is woken per timer. Varghese & Lauck examine this question in appendix A, where
//! a chip that scans the slots interrupts the host when it finds an occupied one.
//!
//! They count `T / M` interrupts per timer for Scheme 6 (timers of `T` ticks, `M` slots) and at most one per
//! level for Scheme 7; Scheme 2 needs one. In this benchmark, `next_wakeup` plays the role of the chip. A
//! tick is a millisecond. The timers run for an hour; each has a random duration between one tick and twice
//! the mean, and is set again when it expires. With slack, a timer may expire within a sixty-fourth of the
//! mean after its deadline.
//!
//! Several timers may expire at one wake-up, so there may be fewer wake-ups than timers. The last line of
//! each table shows the minimum for timers without slack.

use std::time::{Duration, Instant};

use clap::Parser;
use encke_wheel::{Expiry, Tick, WorkBudget};
use encke_wheel_bench::args::Common;
use encke_wheel_bench::plot::Axes;
use encke_wheel_bench::random::{hash, mix};
use encke_wheel_bench::report::{BenchReport, Plot};
use encke_wheel_bench::statistics::{ratio, short};
use encke_wheel_bench::structures::{BenchScheme, SchemeVisitor, schemes};
use encke_wheel_bench::{BenchError, table};

const SECOND: u32 = 1_000;
const MINUTE: u32 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE as u64;

/// Wake-ups per expired timer if the host sleeps in between
#[derive(Debug, Parser)]
struct WakeupsArgs {
    #[command(flatten)]
    common: Common,

    /// Stop measuring a scheme after this time, in milliseconds
    #[arg(long, default_value_t = 10_000)]
    limit: u64,
}

#[derive(Clone, Copy, Debug)]
struct WakeupsLoad {
    op: &'static str,
    timers: u32,
    mean: u32,
    slack: u32,
    until: u64,
}

fn main() -> Result<(), BenchError> {
    let args = WakeupsArgs::parse();
    let limit = Duration::from_millis(args.common.either(args.limit, args.limit.min(200)));
    let mut report = BenchReport::new("wakeups", "timers");
    let mut subjects = WakeupsSubjects { common: &args.common, all: Vec::new() };
    schemes(&mut subjects);
    for load in loads(args.common.either(HOUR, HOUR / 10)) {
        let mut least = None;
        for subject in &subjects.all {
            table::progress(format_args!(
                "{} timers, {}: {}",
                short(load.timers.into()),
                load.op,
                subject.name
            ));
            let counts = (subject.measure)(load, limit);
            if counts.expired == 0 {
                continue;
            }
            if counts.exact && !counts.cut_short && load.slack == 0 {
                let history = (counts.expired, counts.busy, counts.digest);
                assert_eq!(
                    *least.get_or_insert(history),
                    history,
                    "{} differs from the other schemes",
                    subject.name
                );
            }
            let figure = ratio(counts.wakeups, counts.expired);
            let extra = report.add(load.op, "wakeups", subject.name, load.timers.into(), figure);
            extra.insert("woken".into(), counts.wakeups.into());
            extra.insert("expired".into(), counts.expired.into());
            extra.insert("touched".into(), counts.touched.into());
            extra.insert("cut_short".into(), counts.cut_short.into());
        }
        if let Some((expired, busy, _)) = least {
            report.add(load.op, "wakeups", "(minimum)", load.timers.into(), ratio(busy, expired));
        }
    }
    let axes = |title: &str| Axes {
        title: format!("wake-ups per expired timer, {title}"),
        x: "timers",
        y: "wake-ups",
    };
    let plots = [Plot { file: "wakeups.svg", op: "one minute", axes: axes("one minute each") }];
    report.finish(&args.common, &plots)
}

fn loads(until: u64) -> impl Iterator<Item = WakeupsLoad> {
    let all = [
        ("one second", SECOND, 0),
        ("one minute", MINUTE, 0),
        ("ten minutes", 10 * MINUTE, 0),
        ("one minute, slack", MINUTE, MINUTE / 64),
    ];
    all.into_iter().flat_map(move |(op, mean, slack)| {
        // Measure fewer short timers, because more of them expire.
        let sizes: &[u32] = if mean == SECOND { &[1, 100] } else { &[1, 100, 10_000] };
        sizes.iter().map(move |&timers| WakeupsLoad { op, timers, mean, slack, until })
    })
}

#[derive(Debug, Default)]
struct WakeupCounts {
    wakeups: u64,
    expired: u64,
    /// Number of timers that expired, moved or were examined.
    touched: u64,
    /// Number of ticks at which timers expired.
    busy: u64,
    /// Checksum of the expired timers and their ticks.
    digest: u64,
    /// Whether every timer expired on its tick.
    exact: bool,
    cut_short: bool,
}

/// A scheme to be measured, as a monomorphised function.
struct WakeupsSubject {
    name: &'static str,
    measure: fn(WakeupsLoad, Duration) -> WakeupCounts,
}

struct WakeupsSubjects<'a> {
    common: &'a Common,
    all: Vec<WakeupsSubject>,
}

impl SchemeVisitor<u32> for WakeupsSubjects<'_> {
    fn visit<Q: BenchScheme<u32>>(&mut self) {
        if self.common.wants(Q::NAME) {
            self.all.push(WakeupsSubject { name: Q::NAME, measure: measure::<Q> });
        }
    }
}

fn measure<Q: BenchScheme<u32>>(load: WakeupsLoad, limit: Duration) -> WakeupCounts {
    let reach = u64::from(2 * load.mean + load.slack);
    let mut queue = Q::with_reach(reach);
    for id in 0..load.timers {
        set(&mut queue, load, id);
    }
    let mut counts = WakeupCounts { exact: true, ..WakeupCounts::default() };
    let began = Instant::now();
    let mut work = WorkBudget::unlimited();
    while let Some(wakeup) = queue.next_wakeup(Tick(load.until)) {
        counts.wakeups += 1;
        let before = counts.expired;
        while let Expiry::Due(expired) = queue.expire_next(wakeup, &mut work) {
            let (now, id) = (queue.now(), expired.value);
            let late = now.saturating_since(expired.deadline);
            assert!(now >= expired.deadline, "{}: a timer was early", Q::NAME);
            assert!(late <= queue.precision(reach), "{}: a timer was too late", Q::NAME);
            counts.expired += 1;
            counts.exact &= late == 0;
            counts.digest = counts.digest.wrapping_add(mix(now.0 << 32 | u64::from(id)));
            set(&mut queue, load, id);
        }
        counts.busy += u64::from(counts.expired > before);
        if counts.wakeups.is_multiple_of(256) && began.elapsed() > limit {
            counts.cut_short = true;
            break;
        }
    }
    counts.touched = u64::MAX - work.remaining();
    counts
}

/// Sets a timer with a random duration that depends only on the current tick and the timer.
fn set<Q: BenchScheme<u32>>(queue: &mut Q, load: WakeupsLoad, id: u32) {
    let now = queue.now();
    let length = 1 + hash(now.0 << 32 | u64::from(id), 2 * load.mean);
    let deadline = now.saturating_add(length.into());
    let set = if load.slack == 0 {
        queue.schedule(deadline, id)
    } else {
        queue.schedule_within(deadline..=deadline.saturating_add(load.slack.into()), id)
    };
    assert!(set.is_ok(), "{}: within the horizon", Q::NAME);
}
