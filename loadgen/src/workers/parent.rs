//! The parent process: starts the workers, and adds up their numbers.

use std::cell::{Cell, RefCell};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::message::{WorkerMessage, WorkerPhase, merge_runs};
use super::mirror::Mirror;
use super::processes::Processes;
use super::rows::Rows;
use crate::args::{Load, WorkerId};
use crate::cost::{Bottleneck, Cost};
use crate::process::Signals;
use crate::progress::{self, Bar, ProgressLog};
use crate::record::{Recorder, SampleReason, SamplingClock};
use crate::result::{Ending, seconds, sum};
use crate::scenario::{MeasureError, Measured, WholeRunNumbers};

/// Time from the start to the parent's first sample. Workers sample at each full second, so by then all have
/// sent their first sample.
const FIRST_SAMPLE: Duration = Duration::from_millis(1300);
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// Runs a scenario in `workers` worker processes.
pub(crate) async fn run(workers: u32, load: &Load, log: &ProgressLog) -> Result<Measured, MeasureError> {
    let mut signals = Signals::listen().map_err(|error| format!("cannot listen for signals: {error}"))?;
    let recorder = Recorder::starting_now();
    let mut cost = Cost::open(&load.server.cost, &recorder, log).await?;
    let mut processes = Processes::spawn(&WorkerId::all(workers), log)?;
    let mirror = Mirror::new(workers as usize, &recorder);
    let whole = WholeRun {
        load,
        recorder: &recorder,
        mirror: &mirror,
        phases: Cell::new(0),
        rows: RefCell::new(Rows::new(workers as usize)),
        bottleneck: RefCell::default(),
        log,
    };
    let bars = || vec![Bar { label: "open", done: mirror.load().connections, of: load.connections.into() }];
    let began = tokio::select! {
        began = processes.begin() => began,
        () = signals.next() => Err("interrupted before the start".to_owned().into()),
    };
    // The workers' clocks begin at the common start.
    let until_start = |start: &SystemTime| start.duration_since(SystemTime::now()).unwrap_or_default();
    let start_seconds = recorder.seconds() + began.as_ref().map_or(0.0, |start| seconds(until_start(start)));
    let ended = match &began {
        Ok(_) => tokio::select! {
            ended = whole.watch(&mut processes, &mut signals) => ended,
            never = cost.watch(&recorder, || mirror.load()) => match never {},
            never = progress::draw(log.clone(), &recorder, bars) => match never {},
        },
        Err(why) => Err(why.clone()),
    };
    let results = processes.end().await;
    let (started_at, ending) = (began?, ended?);
    // Complete the series before the final sample, which is taken after the run.
    recorder.sample();
    cost.sample_after_run(&recorder).await;
    let mut run = merge_runs(&results, started_at).ok_or_else(no_result)?;
    run.ending = ending.unwrap_or(run.ending);
    let numbers = sum(results.into_iter().map(|result| result.numbers)).ok_or_else(no_result)?;
    let bottleneck = whole.bottleneck.into_inner();
    bottleneck.warnings().iter().for_each(|warning| log.line(warning));
    let series = whole.rows.into_inner().into_series();
    let series = series.with_gauges_of(&recorder.series(), start_seconds, |name| name.starts_with("server."));
    let whole =
        WholeRunNumbers { server: cost.server(), processes: Some(workers), bottleneck: bottleneck.outcome() };
    Ok(Measured { run, numbers, whole, series })
}

/// State of the whole run while the workers run.
struct WholeRun<'a> {
    load: &'a Load,
    recorder: &'a Recorder,
    mirror: &'a Mirror,
    /// Number of phases that have begun.
    phases: Cell<usize>,
    rows: RefCell<Rows>,
    bottleneck: RefCell<Bottleneck>,
    log: &'a ProgressLog,
}

impl WholeRun<'_> {
    /// Watches the workers until all have sent their results. Returns the ending if this process stopped
    /// them.
    async fn watch(
        &self,
        processes: &mut Processes,
        signals: &mut Signals,
    ) -> Result<Option<Ending>, MeasureError> {
        let watching =
            self.watch_samples(self.recorder.clock(Instant::now() + FIRST_SAMPLE, SAMPLE_INTERVAL));
        tokio::pin!(watching);
        let ending = loop {
            tokio::select! {
                message = processes.next() => match message? {
                    Some((worker, message)) => self.on_message(worker, message),
                    None => return Ok(None),
                },
                assertion = &mut watching => {
                    self.log.line(&format!("ended early: {assertion} can no longer hold"));
                    break Ending::Aborted(assertion);
                },
                () = signals.next() => break Ending::Interrupted,
            }
        };
        processes.stop(|worker, message| self.on_message(worker, message)).await?;
        Ok(Some(ending))
    }

    fn on_message(&self, worker: usize, message: WorkerMessage) {
        match message {
            WorkerMessage::Phase(phase) => self.enter_phase(&phase),
            WorkerMessage::Sample(sample) => {
                self.mirror.add(worker, &sample);
                self.rows.borrow_mut().add(worker, *sample);
            }
            WorkerMessage::Ready | WorkerMessage::Log(_) | WorkerMessage::Result(_) => {}
        }
    }

    /// Enters a phase as soon as one of the workers does.
    fn enter_phase(&self, phase: &WorkerPhase) {
        if phase.number <= self.phases.replace(self.phases.get().max(phase.number)) {
            return;
        }
        if phase.is_brief {
            self.recorder.brief_phase(&phase.name);
        } else {
            self.recorder.phase(&phase.name);
        }
    }

    /// Takes each sample when it is due. Returns the first assertion that can no longer hold, if such
    /// assertions end the run.
    async fn watch_samples(&self, mut clock: SamplingClock) -> String {
        loop {
            match clock.next().await.0 {
                SampleReason::Second => {
                    if let Some(assertion) = self.sample_second() {
                        return assertion;
                    }
                }
                SampleReason::Requested | SampleReason::Between if self.recorder.is_sampling_fast() => {
                    self.sample()
                }
                SampleReason::Requested | SampleReason::Between => {}
            }
        }
    }

    fn sample(&self) {
        self.recorder.sample();
        if self.load.server.output.json_lines {
            progress::print_sample(self.recorder);
        }
    }

    fn sample_second(&self) -> Option<String> {
        self.sample();
        let second = self.mirror.usage(self.recorder.last().get("server.cores"));
        if self.bottleneck.borrow_mut().observe(second) {
            self.log.line("loadgen itself is the bottleneck: one of its processes uses a whole core and the server does not");
        }
        let output = &self.load.server.output;
        let is_past = |path: &str, is_past: &dyn Fn(f64) -> bool| {
            self.recorder.monotonic_value(path).is_some_and(is_past)
        };
        let mut assertions = output.assertions.iter().filter(|_| output.abort_on_fail);
        assertions.find(|it| is_past(it.path(), &|number| it.is_past(number))).map(ToString::to_string)
    }
}

fn no_result() -> String {
    "no worker process sent a result".to_owned()
}
