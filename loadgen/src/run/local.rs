//! Runs a scenario on the threads of this process, and samples it every second.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, interval, sleep_until, timeout};

use super::thread::{Shared, start};
use super::{MeasureError, Measured};
use crate::args::{Load, ScenarioOptions, Share};
use crate::cost::{Cost, ServerLoad};
use crate::failures::Failures;
use crate::process::Signals;
use crate::progress::{Bar, LiveView, ProgressLog};
use crate::record::{Highest, Metrics, Phases, Traffic};
use crate::result::{Group, Sample, Series};
use crate::scenario::create;

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);
/// Lag above which a warning is due.
const HIGH_LAG_MS: f64 = 50.0;
/// CPU usage of a thread, in cores, above which loadgen counts as saturated.
const SATURATED_CORES: f64 = 0.9;

/// Runs a scenario until it is over, a signal arrives, or `--abort-on-fail` ends it. All three produce a
/// result.
pub(crate) async fn run(
    options: &ScenarioOptions,
    log: &ProgressLog,
) -> Result<(Metrics, Measured), MeasureError> {
    let mut signals = Signals::listen()?;
    let load = options.load();
    let server = resolve(&load).await?;
    let mut cost = Cost::open(&load.server.cost, log).await?;
    let (start_at, traffic) = (load.start(), Traffic::default());
    let shared = Shared {
        options: options.clone(),
        server,
        metrics: name_numbers(options, &traffic),
        traffic,
        phases: Phases::starting_at(start_at),
        log: log.clone(),
        lag_ms: Highest::default(),
    };
    let Shared { metrics, traffic, phases, lag_ms, .. } = &shared;
    sleep_until(start_at).await;
    let (stop, stopped) = watch::channel(false);
    let (ended, mut ends) = mpsc::unbounded_channel();
    let shares = Share::all(options.threads());
    for share in &shares {
        let started = start(shared.clone(), share.of(&load), *share, stopped.clone(), ended.clone());
        started.map_err(|error| format!("cannot start a thread: {error}"))?;
    }
    drop(ended);
    let mut sampler = Sampler {
        shared: &shared,
        parts: load.part.map_or(1, |part| part.count),
        series: Series::default(),
        last: Sample::default(),
        open: 0,
    };
    let (mut interrupted, mut aborted_by, mut failed) = (false, None, None);
    let mut due = start_at + SAMPLE_INTERVAL;
    let mut saturated = 0_u64;
    let view = LiveView::new(log, &bars(options, metrics));
    let mut redraw = interval(REDRAW_INTERVAL);
    loop {
        tokio::select! {
            end = ends.recv() => match end {
                Some(None) => {}
                Some(why) => {
                    failed = failed.or(why);
                    stop.send_replace(true);
                }
                None => break,
            },
            () = signals.next() => {
                interrupted = true;
                stop.send_replace(true);
            }
            () = sleep_until(due) => {
                // Skip samples that were missed.
                while due <= Instant::now() {
                    due += SAMPLE_INTERVAL;
                }
                sampler.sample(traffic.open(), &mut cost).await;
                let cores = |name| sampler.last.get(name).unwrap_or_default();
                #[expect(clippy::cast_precision_loss, reason = "there are few threads")]
                let limit = SATURATED_CORES * shares.len() as f64;
                saturated += u64::from(cores("loadgen.cores") >= limit && cores("server.cores") < limit);
                if !interrupted && aborted_by.is_none() && let Some(assertion) = failed_assertion(&load, metrics) {
                    log.line(&format!("ended early: {assertion} can no longer hold"));
                    aborted_by = Some(assertion);
                    stop.send_replace(true);
                }
            }
            _ = redraw.tick() => {
                let phase = phases.names().pop().unwrap_or_default();
                view.draw(phase, traffic.open(), &sampler.last, &bars(options, metrics));
            }
        }
    }
    if let Some(why) = failed {
        return Err(why);
    }
    let elapsed = start_at.elapsed();
    // All connections have been dropped. The last sample shows how many there were before.
    sampler.sample(sampler.open, &mut cost).await;
    cost.end().await;
    let lag = lag_ms.get().unwrap_or_default();
    let warnings = warnings(saturated, lag);
    warnings.iter().for_each(|warning| log.line(warning));
    let loadgen = Group::default()
        .with("threads", shares.len())
        .with("lag_ms_max", lag)
        .with("saturated_seconds", saturated)
        .with("warnings", warnings)
        .and(cost.own());
    let measured = Measured {
        numbers: metrics.by_path(),
        phases: phases.all(),
        series: sampler.series,
        interrupted,
        aborted_by,
        elapsed,
        server: cost.server(),
        loadgen,
    };
    Ok((shared.metrics, measured))
}

struct Sampler<'a> {
    shared: &'a Shared,
    /// Number of processes, each of which has about as many connections as this one.
    parts: u32,
    series: Series,
    last: Sample,
    /// Number of open connections at the last sample.
    open: u64,
}

impl Sampler<'_> {
    #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
    async fn sample(&mut self, open: u64, cost: &mut Cost) {
        let Shared { metrics, traffic, phases, .. } = self.shared;
        self.open = open;
        let mut sample = Sample { t: phases.seconds(), ..Sample::default() };
        sample.gauge("connections", Some(open as f64));
        metrics.sample(&mut sample);
        let own = ServerLoad { connections: open, pings: traffic.pings.get() };
        cost.sample(own, self.parts, &phases.names(), &mut sample).await;
        self.series.push(&sample);
        self.last = sample;
    }
}

async fn resolve(load: &Load) -> Result<SocketAddr, String> {
    let cannot = |why: String| format!("cannot resolve {}: {why}", load.server.url.uri);
    let address = timeout(load.server.connect_timeout, load.server.url.resolve()).await;
    address.map_err(|_| cannot("it took too long".to_owned()))?.map_err(|error| cannot(error.to_string()))
}

/// Returns the first assertion that can no longer hold, if such assertions end the run.
fn failed_assertion(load: &Load, metrics: &Metrics) -> Option<String> {
    let output = &load.server.output;
    let mut assertions = output.assertions.iter().filter(|_| output.abort_on_fail);
    let failed = assertions.find(|it| metrics.growing(it.path()).is_some_and(|number| it.is_past(number)));
    failed.map(ToString::to_string)
}

/// Returns the progress bars: what is counted, and how much of it is expected.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "they are counts")]
fn bars(options: &ScenarioOptions, metrics: &Metrics) -> Vec<Bar> {
    let count = |name| metrics.growing(name).unwrap_or_default() as u64;
    let connections = u64::from(options.load().connections);
    let bar = |(label, of): &(&'static str, &'static str)| Bar {
        label,
        done: count(label),
        of: if of.is_empty() { connections } else { count(of) },
    };
    options.bars().iter().map(bar).collect()
}

fn warnings(saturated: u64, lag_ms: f64) -> Vec<String> {
    let mut warnings = Vec::new();
    if saturated > 0 {
        warnings.push(format!(
            "loadgen itself was the bottleneck for {saturated} s: its threads used whole cores (--threads)"
        ));
    }
    if lag_ms >= HIGH_LAG_MS {
        warnings.push(format!(
            "loadgen ran up to {lag_ms:.0} ms late: measured latencies may be too high by as much"
        ));
    }
    warnings
}

/// Names all numbers of a scenario, in the order of the result. The instances of the scenario that run add
/// theirs.
pub(super) fn name_numbers(options: &ScenarioOptions, traffic: &Traffic) -> Metrics {
    let metrics = Metrics::new();
    let _ = Failures::new(&metrics, &ProgressLog::silent());
    drop(create(options, &metrics));
    metrics.add_traffic(traffic);
    metrics
}
