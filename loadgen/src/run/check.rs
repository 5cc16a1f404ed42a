//! Checks assertions before a run: its result must have the numbers they refer to.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use crate::args;
use crate::client::{Dialer, Failures};
use crate::cost::{Bottleneck, Cost, Sampling};
use crate::process::SelfUsage;
use crate::progress::ProgressLog;
use crate::record::Recorder;
use crate::result::{Assertion, Document, Ending, Group, PathError, RunInfo, RunPhase, Series, Verdict};
use crate::scenario::{
    self, Figures, Measured, Numbers, Prepared, RunRefusal, Setup, WholeRunNumbers, prepare,
};
use crate::transport::{ADDRESSES, Sources};

/// Prefixes of paths that are not known until the end: error kinds, close codes and samples of each second.
const DYNAMIC_PREFIXES: [&str; 6] = [
    "error_kinds.",
    "close_codes.",
    "frame_faults.",
    "slow_ends.close_codes.",
    "slow_ends.frame_faults.",
    "series.",
];
/// Paths that are never numbers.
const NEVER_NUMBERS: [&str; 2] = ["aborted_by", "loadgen.warnings"];

/// Returns a message for each assertion that does not refer to a number of this scenario's result.
pub(crate) fn meaningless_assertions(scenario: &args::ScenarioOptions) -> Vec<String> {
    let load = scenario.load();
    let recorder = Recorder::starting_now();
    let (document, figures) = empty_document(scenario, &recorder);
    let begins =
        |path: &str, names: &[&str]| names.iter().any(|name| path_within_run(path).starts_with(name));
    let is_setting = |path: &str| document.settings().any(|(name, _)| name == path);
    // A number that only grows can end a run, even under a name that exists only in the series.
    let ends_run = |path: &str| load.server.output.abort_on_fail && recorder.is_monotonic(path);
    let fault = |assertion: &Assertion| {
        let path = assertion.path();
        let Verdict::Meaningless(why) = assertion.judge(&document) else { return None };
        let has_meaning = match why {
            PathError::Unknown => {
                begins(path, &DYNAMIC_PREFIXES) || begins(path, &figures.conditional) || ends_run(path)
            }
            PathError::Unmeasured => {
                !is_setting(path) && !NEVER_NUMBERS.contains(&path) && !begins(path, &figures.unmeasured)
            }
            PathError::NotANumber => false,
        };
        (!has_meaning).then(|| {
            let why = missing_option(path, &load.server.cost).map_or_else(|| why.to_string(), str::to_owned);
            format!("invalid assertion: {assertion} ({why})")
        })
    };
    load.server.output.assertions.iter().filter_map(fault).collect()
}

/// Strips the prefix of a histogram, or of a run in a plan, so that the path is relative to the result of one
/// run.
fn path_within_run(path: &str) -> &str {
    let path = path.strip_prefix("histograms.").unwrap_or(path);
    match path.strip_prefix("plan.").map(|rest| rest.splitn(4, '.').collect::<Vec<_>>()).as_deref() {
        Some([_, "runs", _, rest]) => rest,
        _ => path,
    }
}

/// Returns a message about the missing option, if the path is below `server`.
fn missing_option(path: &str, sampling: &Sampling) -> Option<&'static str> {
    let path = path.strip_prefix("server.")?;
    match (path.starts_with("timers."), sampling.pid.is_some(), sampling.admin.is_some()) {
        (_, false, false) => Some("the server is sampled only with --pid or --admin"),
        (true, _, false) => Some("timers are sampled only with --admin"),
        (false, false, _) => Some("the server process is sampled only with --pid"),
        (true, _, true) | (false, true, _) => None,
    }
}

/// Builds the result of a run in which nothing has been measured. Its counters are registered in `recorder`.
fn empty_document(scenario: &args::ScenarioOptions, recorder: &Recorder) -> (Document, Figures) {
    let Prepared { name, load, header, scenario } = prepare(scenario);
    let failures = Failures::new(ProgressLog::silent());
    recorder.counter("errors", failures.count());
    scenario.record(recorder);
    let sources = Sources::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 0..ADDRESSES);
    let dialer = Rc::new(Dialer::new(load.server.dial_options(), sources, recorder.traffic()));
    let figures = scenario.figures();
    let cost = Cost::placeholder(&load.server.cost, &figures.phases);
    let processes = Some(load.server.workers.processes).filter(|processes| *processes > 1);
    let setup = Setup { load, dialer, failures, recorder: recorder.clone(), refusal: RunRefusal::default() };
    let numbers = Numbers {
        outcome: scenario.outcome(&setup),
        error_kinds: BTreeMap::new(),
        traffic: recorder.traffic().summary(),
        loadgen: scenario::LoadgenUsage::new(SelfUsage::default().summary(), cost.self_usage()),
    };
    let whole =
        WholeRunNumbers { server: cost.server(), processes, bottleneck: Bottleneck::default().outcome() };
    let (started_at, elapsed) = (SystemTime::now(), Duration::ZERO);
    let phases = figures.phases.iter().map(|name| RunPhase::new(name.clone(), 0.0, 0.0)).collect();
    let run = RunInfo { started_at, elapsed, ending: Ending::Finished, phases };
    let measured = Measured { run, numbers, whole, series: Series::default() };
    (measured.into_document(Group::default().with("scenario", name).and(header)), figures)
}
