//! Whether assertions are about figures that a result will have, before it is measured.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use crate::args;
use crate::client::{Dialer, Failures};
use crate::cost::{Bottleneck, Cost, Sampling};
use crate::process::SelfUsage;
use crate::progress::Log;
use crate::record::Recorder;
use crate::result::{Assertion, Document, Ending, Group, NoNumber, Phase, Run, Series, Verdict};
use crate::scenario::{self, Figures, Measured, Numbers, Prepared, Refusal, Setup, Whole, prepare};
use crate::transport::{ADDRESSES, Sources};

/// What comes below these is known in the end only: kinds of errors, close codes, seconds.
const KNOWN_LATER: [&str; 6] = [
    "error_kinds.",
    "close_codes.",
    "frame_faults.",
    "slow_ends.close_codes.",
    "slow_ends.frame_faults.",
    "series.",
];
/// Nothing, or what is no number.
const NEVER_NUMBERS: [&str; 2] = ["aborted_by", "loadgen.warnings"];

/// Of every assertion that is about no figure of this scenario, what is wrong with it.
pub(crate) fn meaningless_assertions(scenario: &args::Scenario) -> Vec<String> {
    let load = scenario.load();
    let recorder = Recorder::starting_now();
    let (document, figures) = empty_document(scenario, &recorder);
    let begins = |path: &str, names: &[&str]| names.iter().any(|name| part_of_run(path).starts_with(name));
    let is_setting = |path: &str| document.settings().any(|(name, _)| name == path);
    // What grows can end a run, also by the name that it has in the series alone.
    let ends_run = |path: &str| load.server.output.abort_on_fail && recorder.grows(path);
    let fault = |assertion: &Assertion| {
        let path = assertion.path();
        let Verdict::Meaningless(why) = assertion.judge(&document) else { return None };
        let has_meaning = match why {
            NoNumber::Unknown => begins(path, &KNOWN_LATER) || begins(path, &figures.later) || ends_run(path),
            NoNumber::Unmeasured => {
                !is_setting(path) && !NEVER_NUMBERS.contains(&path) && !begins(path, &figures.never)
            }
            NoNumber::NotANumber => false,
        };
        (!has_meaning).then(|| {
            let why = unsampled(path, &load.server.cost).map_or_else(|| why.to_string(), str::to_owned);
            format!("means nothing: {assertion} ({why})")
        })
    };
    load.server.output.assertions.iter().filter_map(fault).collect()
}

/// The path within the result of one run, where it is that of a run of a plan, or of a histogram.
fn part_of_run(path: &str) -> &str {
    let path = path.strip_prefix("histograms.").unwrap_or(path);
    match path.strip_prefix("plan.").map(|rest| rest.splitn(4, '.').collect::<Vec<_>>()).as_deref() {
        Some([_, "runs", _, rest]) => rest,
        _ => path,
    }
}

/// Which option is missing, if the path is one of the server's.
fn unsampled(path: &str, sampling: &Sampling) -> Option<&'static str> {
    let path = path.strip_prefix("server.")?;
    match (path.starts_with("timers."), sampling.pid.is_some(), sampling.admin.is_some()) {
        (_, false, false) => Some("the server is sampled with --pid or --admin"),
        (true, _, false) => Some("timers are sampled with --admin"),
        (false, false, _) => Some("the process of the server is sampled with --pid"),
        (true, _, true) | (false, true, _) => None,
    }
}

/// A result in which nothing has been measured. Its counters are those of the recorder.
fn empty_document(scenario: &args::Scenario, recorder: &Recorder) -> (Document, Figures) {
    let Prepared { name, load, header, scenario } = prepare(scenario);
    let failures = Failures::new(Log::silent());
    recorder.counter("errors", failures.count());
    scenario.record(recorder);
    let sources = Sources::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 0..ADDRESSES);
    let dialer = Rc::new(Dialer::new(load.server.dial_options(), sources, recorder.traffic()));
    let figures = scenario.figures();
    let cost = Cost::unmeasured(&load.server.cost, &figures.phases);
    let processes = Some(load.server.workers.processes).filter(|processes| *processes > 1);
    let setup = Setup { load, dialer, failures, recorder: recorder.clone(), refusal: Refusal::default() };
    let numbers = Numbers {
        outcome: scenario.outcome(&setup),
        error_kinds: BTreeMap::new(),
        traffic: recorder.traffic().summary(),
        loadgen: scenario::SelfUsage::new(SelfUsage::default().summary(), cost.self_usage()),
    };
    let whole = Whole { server: cost.server(), processes, bottleneck: Bottleneck::default().outcome() };
    let (started_at, elapsed) = (SystemTime::now(), Duration::ZERO);
    let phases = figures.phases.iter().map(|name| Phase::new(name.clone(), 0.0, 0.0)).collect();
    let run = Run { started_at, elapsed, ending: Ending::Finished, phases };
    let measured = Measured { run, numbers, whole, series: Series::default() };
    (measured.into_document(Group::default().with("scenario", name).and(header)), figures)
}
