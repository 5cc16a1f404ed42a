//! One run of a scenario, from resolving the target to its document.

use std::rc::Rc;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use crate::args::Load;
use crate::client::Dialer;
use crate::failure::Failures;
use crate::own::Lag;
use crate::progress::{self, Log};
use crate::record::Recorder;
use crate::result::{Document, Ending, Group, Run};
use crate::scenario::{Scenario, Setup};
use crate::source::Sources;
use crate::stop::Signals;

const SAMPLE: Duration = Duration::from_secs(1);

/// Runs a scenario until it is over, a signal comes, or `--abort-on-fail` ends it; in each case there is a result.
pub(crate) async fn drive<S: Scenario>(
    scenario: S,
    asked_for: Group,
    load: &Load,
    log: &Log,
) -> Result<Document, String> {
    let mut signals = Signals::listen().map_err(|error| format!("cannot listen for signals: {error}"))?;
    let cannot_resolve = |why: String| format!("cannot resolve {}: {why}", load.url.as_str());
    let address = timeout(load.connect_timeout, load.url.resolve())
        .await
        .map_err(|_| cannot_resolve("it takes too long".to_owned()))?
        .map_err(|error| cannot_resolve(error.to_string()))?;
    let (recorder, lag, failures) = (Recorder::starting_now(), Lag::default(), Failures::new(log.clone()));
    let dialer = Dialer {
        target: load.url.clone(),
        sources: Sources::new(address),
        timeout: load.connect_timeout,
        traffic: recorder.traffic().clone(),
    };
    recorder.counter("errors", failures.count());
    lag.record(&recorder);
    scenario.record(&recorder);
    if load.wanted.abort_on_fail {
        for assertion in load.wanted.assertions.iter().filter(|it| !recorder.grows(it.path())) {
            log.line(&format!("{assertion} is judged in the end only: the number may still change"));
        }
    }
    let setup = Rc::new(Setup { load: load.clone(), dialer, failures, recorder: recorder.clone() });
    let scenario = Rc::new(scenario);
    let started_at = SystemTime::now();
    let start = Instant::now();
    let ending = tokio::select! {
        () = scenario.clone().run(setup.clone()) => Ending::Finished,
        () = signals.next() => Ending::Interrupted,
        assertion = sample(&recorder, load, &lag) => Ending::Aborted(assertion),
        never = progress::draw(log.clone(), &recorder, || scenario.bars(&setup)) => match never {},
        never = lag.watch() => match never {},
    };
    let elapsed = start.elapsed();
    if let Ending::Aborted(assertion) = &ending {
        log.line(&format!("ended early: {assertion} cannot hold any more"));
    }
    lag.sample();
    recorder.sample();
    // Before the result itself takes memory.
    let own = lag.and_usage();
    let numbers = scenario
        .outcome(&setup)
        .with("error_kinds", setup.failures.by_kind())
        .with("traffic", recorder.traffic().summary())
        .with("loadgen", own);
    let run = Run { started_at, elapsed, ending, phases: recorder.phases() };
    Ok(Document::new(asked_for, run, numbers, &recorder.series()))
}

/// Samples everything each second. Returns the first assertion that cannot hold any more, if that is to end the run.
async fn sample(recorder: &Recorder, load: &Load, lag: &Lag) -> String {
    let mut second = interval_at(Instant::now() + SAMPLE, SAMPLE);
    second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        second.tick().await;
        lag.sample();
        recorder.sample();
        if load.wanted.json_lines {
            progress::tell_sample(recorder);
        }
        if !load.wanted.abort_on_fail {
            continue;
        }
        for assertion in &load.wanted.assertions {
            if recorder.growing(assertion.path()).is_some_and(|number| assertion.is_past(number)) {
                return assertion.to_string();
            }
        }
    }
}
