//! Whether assertions are about figures that a result will have, before it is measured.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use crate::args;
use crate::client::{Dialer, Failures};
use crate::cost::{Bottleneck, Cost};
use crate::process::SelfUsage;
use crate::progress::Log;
use crate::record::Recorder;
use crate::result::{Document, Ending, Group, NoNumber, Run, Series, Verdict};
use crate::scenario::{self, Measured, Numbers, Prepared, Refusal, Setup, Whole, prepare};
use crate::transport::{ADDRESSES, Sources};

/// What comes below these is known in the end only: kinds of errors, close codes, phases, seconds.
const KNOWN_LATER: [&str; 9] = [
    "error_kinds.",
    "close_codes.",
    "frame_faults.",
    "phases[",
    "series.",
    "histograms.",
    "plan.",
    "server.phases.",
    "loadgen.warnings[",
];

/// Of every assertion that is about no figure of this scenario, what is wrong with it.
pub(crate) fn meaningless_assertions(scenario: &args::Scenario) -> Vec<String> {
    let load = scenario.load();
    let recorder = Recorder::starting_now();
    let document = empty_document(scenario, &recorder);
    let assertions = load.server.output.assertions.iter();
    let known_later = |path: &str| KNOWN_LATER.iter().any(|begin| path.contains(begin));
    // What grows can end a run, also by the name that it has in the series alone.
    let ends_run = |path: &str| load.server.output.abort_on_fail && recorder.grows(path);
    let unknown = assertions.filter(|it| {
        it.judge(&document) == Verdict::Meaningless(NoNumber::Unknown)
            && !known_later(it.path())
            && !ends_run(it.path())
    });
    let told = unknown.map(|it| {
        let is_of_server = it.path().starts_with("server.") && load.server.cost.is_nothing();
        let why = if is_of_server {
            "the server is sampled with --pid or --admin".to_owned()
        } else {
            NoNumber::Unknown.to_string()
        };
        format!("means nothing: {it} ({why})")
    });
    told.collect()
}

/// A result in which nothing has been measured. Its counters are those of the recorder.
fn empty_document(scenario: &args::Scenario, recorder: &Recorder) -> Document {
    let Prepared { name, load, header, scenario } = prepare(scenario);
    let failures = Failures::new(Log::silent());
    recorder.counter("errors", failures.count());
    scenario.record(recorder);
    let sources = Sources::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 0..ADDRESSES);
    let dialer = Rc::new(Dialer::new(load.server.dial_options(), sources, recorder.traffic()));
    let cost = Cost::unmeasured(&load.server.cost);
    let processes = Some(load.server.workers.processes).filter(|processes| *processes > 1);
    let setup = Setup { load, dialer, failures, recorder: recorder.clone(), refusal: Refusal::default() };
    let numbers = Numbers {
        outcome: scenario.outcome(&setup),
        error_kinds: BTreeMap::new(),
        traffic: recorder.traffic().summary(),
        loadgen: scenario::SelfUsage::new(SelfUsage::default().summary(), cost.self_usage()),
    };
    let whole = Whole { server: cost.server(), processes, bottleneck: Bottleneck::default().outcome() };
    let (started_at, elapsed, phases) = (SystemTime::now(), Duration::ZERO, Vec::new());
    let run = Run { started_at, elapsed, ending: Ending::Finished, phases };
    let measured = Measured { run, numbers, whole, series: Series::default() };
    measured.into_document(Group::default().with("scenario", name).and(header))
}
