//! Runs a scenario, from resolving the target to the measurements.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, timeout};

use crate::args::Load;
use crate::client::{Dialer, Failures};
use crate::cost::{self, Bottleneck, Cost, SecondUsage};
use crate::process::{SelfUsage, Signals};
use crate::progress::{self, ProgressLog};
use crate::record::{Recorder, SampleReason};
use crate::result::{Ending, RunInfo, Sample, Values};
use crate::scenario::{self, MeasureError, Measured, Numbers, RunRefusal, Scenario, Setup, WholeRunNumbers};
use crate::transport::{ADDRESSES, Sources};
use crate::workers::{self, Parent, SampleNumber};

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// Runs a scenario until it is over, a signal arrives, or `--abort-on-fail` ends it. All three produce a
/// result.
pub(crate) async fn drive(
    scenario: Rc<dyn Scenario>,
    load: &Load,
    log: &ProgressLog,
) -> Result<Measured, MeasureError> {
    let mut signals = Signals::listen().map_err(|error| format!("cannot listen for signals: {error}"))?;
    let address = resolve(load).await?;
    let mut parent = load.server.workers.worker.map(|_| Parent::listen()).transpose()?;
    if let Some(parent) = &mut parent {
        tokio::select! {
            start = parent.wait_for_start() => start?,
            () = signals.next() => return Err("interrupted before the start".to_owned().into()),
        }
    }
    let range = load.server.workers.worker.map_or(0..ADDRESSES, |worker| worker.addresses(ADDRESSES));
    let sources = Sources::new(address, range);
    let (recorder, usage, failures) =
        (Recorder::starting_now(), SelfUsage::default(), Failures::new(log.clone()));
    let dialer = Rc::new(Dialer::new(load.server.dial_options(), sources, recorder.traffic()));
    dialer.check_token().await.map_err(|failure| failure.to_string())?;
    recorder.counter("errors", failures.count());
    usage.record(&recorder);
    scenario.record(&recorder);
    let mut cost = Cost::open(&load.server.cost, &recorder, log).await?;
    let bottleneck = RefCell::new(Bottleneck::default());
    let sink = SampleSink::of(load);
    if load.server.output.abort_on_fail {
        for assertion in load.server.output.assertions.iter().filter(|it| !recorder.is_monotonic(it.path())) {
            log.line(&format!("{assertion} is checked only at the end: the number may still change"));
        }
    }
    let refusal = RunRefusal::default();
    let setup =
        Setup { load: load.clone(), dialer, failures, recorder: recorder.clone(), refusal: refusal.clone() };
    let setup = Rc::new(setup);
    let started_at = SystemTime::now();
    let start = Instant::now();
    let ending = tokio::select! {
        () = scenario.clone().run(setup.clone()) => Ending::Finished,
        why = refusal.reason() => return Err(MeasureError::Refused(why)),
        () = signals.next() => Ending::Interrupted,
        () = has_stopped(&mut parent) => Ending::Interrupted,
        assertion = sample(start, &recorder, load, &usage, sink, || {
            observe_bottleneck(&recorder.last(), &bottleneck, sink != SampleSink::Parent, log);
        }) => Ending::Aborted(assertion),
        never = progress::draw(log.clone(), &recorder, || scenario.bars(&setup)) => match never {},
        never = usage.watch(recorder.stalls()) => match never {},
        never = cost.watch(&recorder, || cost::ServerLoad::of(recorder.traffic())) => match never {},
    };
    let elapsed = start.elapsed();
    if let Ending::Aborted(assertion) = &ending {
        log.line(&format!("ended early: {assertion} can no longer hold"));
    }
    usage.sample();
    sink.last(elapsed, &recorder, recorder.sample());
    // Read the usage before building the result uses memory.
    let usage = usage.summary();
    cost.sample_after_run(&recorder).await;
    let bottleneck = bottleneck.into_inner();
    // A worker does not know whether it was the bottleneck. Only its parent sees all workers and the server.
    if parent.is_none() {
        bottleneck.warnings().iter().for_each(|warning| log.line(warning));
    }
    let figures = scenario.figures();
    debug_assert!(
        recorder.phases().iter().all(|phase| figures.phases.contains(&phase.name)),
        "a phase is missing in `Scenario::figures`: {figures:?}"
    );
    let numbers = Numbers {
        outcome: scenario.outcome(&setup),
        error_kinds: setup.failures.by_kind(),
        traffic: recorder.traffic().summary(),
        loadgen: scenario::LoadgenUsage::new(usage, cost.self_usage()),
    };
    let whole = WholeRunNumbers { server: cost.server(), processes: None, bottleneck: bottleneck.outcome() };
    let run = RunInfo { started_at, elapsed, ending, phases: recorder.phases() };
    Ok(Measured { run, numbers, whole, series: recorder.series() })
}

async fn resolve(load: &Load) -> Result<SocketAddr, String> {
    let cannot = |why: String| format!("cannot resolve {}: {why}", load.server.url.as_str());
    let address = timeout(load.server.connect_timeout, load.server.url.resolve()).await;
    address.map_err(|_| cannot("it took too long".to_owned()))?.map_err(|error| cannot(error.to_string()))
}

/// Returns when the parent process, if there is one, stops this one.
async fn has_stopped(parent: &mut Option<Parent>) {
    match parent {
        Some(parent) => parent.has_stopped().await,
        None => std::future::pending().await,
    }
}

fn observe_bottleneck(second: &Sample, bottleneck: &RefCell<Bottleneck>, is_alone: bool, log: &ProgressLog) {
    if bottleneck.borrow_mut().observe(SecondUsage::of(second)) && is_alone {
        log.line("loadgen itself is the bottleneck: it uses a whole core and the server does not");
    }
}

/// Destination of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SampleSink {
    /// The process that started this one.
    Parent,
    /// The user, who reads lines of JSON.
    User,
    Discard,
}

impl SampleSink {
    fn of(load: &Load) -> Self {
        match load.server.workers.worker {
            Some(_) => Self::Parent,
            None if load.server.output.json_lines => Self::User,
            None => Self::Discard,
        }
    }

    fn phase(self, recorder: &Recorder) {
        if self == Self::Parent {
            workers::send_phase(recorder);
        }
    }

    fn sample(self, number: SampleNumber, recorder: &Recorder, values: Values) {
        match self {
            Self::Parent => workers::send_sample(number, false, recorder, values),
            Self::User => progress::print_sample(recorder),
            Self::Discard => {}
        }
    }

    /// Sends the sample of the second in which the run ended.
    fn last(self, elapsed: Duration, recorder: &Recorder, values: Values) {
        if self == Self::Parent {
            let number = SampleNumber::Timed { second: elapsed.as_secs() + 1, nth: 0 };
            workers::send_sample(number, true, recorder, values);
        }
    }
}

/// Samples everything at each full second since the start and then calls `on_second`. In brief phases, also
/// samples between full seconds. Returns the first assertion that can no longer hold, if such assertions end
/// the run.
async fn sample(
    start: Instant,
    recorder: &Recorder,
    load: &Load,
    usage: &SelfUsage,
    sink: SampleSink,
    on_second: impl Fn(),
) -> String {
    // Schedule samples relative to the start, so that all processes sample at the same times.
    let mut clock = recorder.clock(start + SAMPLE_INTERVAL, SAMPLE_INTERVAL);
    let (mut second, mut nth, mut requested) = (0, 0, 0);
    loop {
        let (due, at) = clock.next().await;
        if due == SampleReason::Requested {
            sink.phase(recorder);
        }
        let number = match due {
            SampleReason::Second => {
                usage.sample();
                (second, nth) = (at.duration_since(start).as_secs(), 0);
                SampleNumber::Timed { second, nth }
            }
            SampleReason::Requested | SampleReason::Between if !recorder.is_sampling_fast() => continue,
            SampleReason::Requested => {
                requested += 1;
                SampleNumber::Requested(requested)
            }
            SampleReason::Between => {
                nth += 1;
                SampleNumber::Timed { second, nth }
            }
        };
        sink.sample(number, recorder, recorder.sample());
        if due != SampleReason::Second {
            continue;
        }
        on_second();
        if !load.server.output.abort_on_fail {
            continue;
        }
        for assertion in &load.server.output.assertions {
            if recorder.monotonic_value(assertion.path()).is_some_and(|number| assertion.is_past(number)) {
                return assertion.to_string();
            }
        }
    }
}
