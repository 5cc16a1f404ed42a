//! CPU, memory, descriptors and threads of the server and of loadgen, sampled every second, and Encke's timer
//! statistics.
//!
//! [`crate::process`] reads the kernel's statistics and [`timers`] Encke's. [`account`] computes peaks and
//! means, [`steady`] the cost of a connection and of a ping. [`bottleneck`] detects whether loadgen itself
//! limited the run.

mod account;
mod bottleneck;
mod phases;
mod sampling;
mod steady;
mod timers;

use std::convert::Infallible;
use std::time::Duration;

use indexmap::IndexMap;
use serde::Serialize;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

pub(crate) use self::account::CostSummary;
use self::account::{Account, ServerCost};
pub(crate) use self::bottleneck::{Bottleneck, BottleneckOutcome, SecondUsage};
use self::phases::{PhaseCost, Phases};
pub(crate) use self::sampling::Sampling;
pub(crate) use self::steady::ServerLoad;
use self::timers::{TimersAccount, TimersOutcome};
use crate::client::AdminClient;
use crate::process::{Reading, ReadingError, SampledProcess};
use crate::progress::ProgressLog;
use crate::record::{Gauge, Recorder, SampleReason};
use crate::result::Group;

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Time until the first sample. It is slightly earlier than the recorder's first sample, which therefore
/// contains these readings.
const FIRST_SAMPLE: Duration = Duration::from_millis(900);
/// Time limit for a response from the admin API. A later response would belong to the next second.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(800);

/// Samples the server and loadgen itself.
#[derive(Debug)]
pub(crate) struct Cost {
    server: Option<ServerProcess>,
    timers: Option<(AdminClient, TimersAccount)>,
    /// Loadgen's own process. `None` without `/proc`.
    self_usage: Option<(SampledProcess, Account)>,
    log: ProgressLog,
}

#[derive(Debug)]
struct ServerProcess {
    pid: u32,
    process: SampledProcess,
    resident_from: &'static str,
    account: Account,
    phases: Phases,
    has_ended: bool,
    cores: Gauge,
    resident_bytes: Gauge,
    descriptors: Gauge,
    threads: Gauge,
}

impl Cost {
    /// Takes the first sample, before the run. Returns an error if something that the user requested cannot
    /// be sampled.
    pub(crate) async fn open(
        options: &Sampling,
        recorder: &Recorder,
        log: &ProgressLog,
    ) -> Result<Self, String> {
        let server = options.pid.map(|pid| ServerProcess::open(pid, recorder)).transpose()?;
        let self_usage = SampledProcess::own();
        let self_usage = self_usage.and_then(|self_usage| Some((self_usage.reading().ok()?, self_usage)));
        let self_usage = self_usage.map(|(before, self_usage)| (self_usage, Account::new(before)));
        Ok(Self { server, timers: Self::open_timers(options, recorder).await?, self_usage, log: log.clone() })
    }

    /// Creates an instance without measurements, which provides the names of the result's numbers. This
    /// process stands in for the server.
    pub(crate) fn placeholder(options: &Sampling, phases: &[String]) -> Self {
        let (recorder, log) = (Recorder::starting_now(), ProgressLog::silent());
        let mut server = options.pid.and_then(|_| ServerProcess::open(std::process::id(), &recorder).ok());
        if let Some(server) = &mut server {
            server.add_placeholder_phases(phases);
        }
        let admin = options.admin.clone().and_then(|url| AdminClient::new(url, None).ok());
        let timers =
            admin.map(|admin| (admin, TimersAccount::new(timers::TimerReport::default(), &recorder)));
        let self_usage = SampledProcess::own().and_then(|process| Some((process.reading().ok()?, process)));
        let self_usage = self_usage.map(|(before, process)| (process, Account::new(before)));
        Self { server, timers, self_usage, log }
    }

    async fn open_timers(
        options: &Sampling,
        recorder: &Recorder,
    ) -> Result<Option<(AdminClient, TimersAccount)>, String> {
        let Some(url) = &options.admin else { return Ok(None) };
        let mut admin =
            AdminClient::new(url.clone(), options.api_key.as_deref()).map_err(|error| error.to_string())?;
        let before = match fetch_timers(&mut admin).await {
            Ok(before) => before,
            Err(_) if options.admin_is_for_publishing => return Ok(None),
            Err(why) => return Err(format!("cannot sample the admin API: {why}")),
        };
        Ok(Some((admin, TimersAccount::new(before, recorder))))
    }

    /// Samples every second and at the ends of phases until the future is dropped. `load` returns the current
    /// load on the server.
    pub(crate) async fn watch(&mut self, recorder: &Recorder, load: impl Fn() -> ServerLoad) -> Infallible {
        let mut clock = recorder.clock(Instant::now() + FIRST_SAMPLE, SAMPLE_INTERVAL);
        loop {
            let (due, _) = clock.next().await;
            let phase = recorder.current_phase();
            let at = SamplePoint { due, phase, is_fast: recorder.is_sampling_fast(), is_after_run: false };
            self.sample(load(), &at).await;
        }
    }

    /// Takes the last sample, after loadgen has dropped its connections.
    pub(crate) async fn sample_after_run(&mut self, recorder: &Recorder) {
        let (phase, is_fast) = (recorder.current_phase(), recorder.is_sampling_fast());
        if self.server.as_ref().is_some_and(|server| server.phases.current() != phase) {
            // The last phase ended before it could be sampled, so sample it now.
            let at = SamplePoint { due: SampleReason::Requested, phase, is_fast, is_after_run: true };
            self.sample(ServerLoad::default(), &at).await;
        }
        // End the last phase.
        let at = SamplePoint { due: SampleReason::Second, phase: String::new(), is_fast, is_after_run: true };
        self.sample(ServerLoad::default(), &at).await;
    }

    async fn sample(&mut self, load: ServerLoad, at: &SamplePoint) {
        let server =
            self.server.as_ref().filter(|server| !server.has_ended).map(|server| server.process.clone());
        let self_usage = self.self_usage.as_ref().filter(|_| at.due == SampleReason::Second);
        let self_usage = self_usage.map(|(self_usage, _)| self_usage.clone());
        if server.is_none() && at.due != SampleReason::Second {
            return;
        }
        // Read on another thread than the one that measures: to compute resident memory, the kernel walks all
        // mappings of a process.
        let read = spawn_blocking(move || (server.map(|it| it.reading()), self_usage.map(|it| it.reading())));
        let (server, self_usage) = read.await.expect("reading does not panic and is not aborted");
        if let (Some(watched), Some(reading)) = (&mut self.server, server) {
            watched.add(reading, load, at, &self.log);
        }
        if let (Some((_, account)), Some(Ok(reading))) = (&mut self.self_usage, self_usage) {
            account.add(reading, load);
        }
        if let Some((admin, account)) = &mut self.timers
            && at.due == SampleReason::Second
        {
            match fetch_timers(admin).await {
                Ok(timers) => account.add(timers),
                Err(why) => {
                    if account.add_missed() {
                        self.log.line(&format!("a sample of the admin API is missing: {why}"));
                    }
                }
            }
        }
    }

    /// Returns the `server` part of the result, if the server was sampled.
    pub(crate) fn server(&self) -> Option<Group> {
        let process = self.server.as_ref().map(ServerProcess::outcome);
        let timers = self.timers.as_ref().map(|(_, account)| account.outcome());
        (process.is_some() || timers.is_some()).then(|| Group::of(&ServerOutcome { process, timers }))
    }

    /// Returns the CPU and memory usage of loadgen itself.
    pub(crate) fn self_usage(&self) -> Option<CostSummary> {
        self.self_usage.as_ref().map(|(_, account)| account.summary())
    }
}

#[derive(Serialize)]
struct ServerOutcome {
    #[serde(flatten)]
    process: Option<ProcessOutcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timers: Option<TimersOutcome>,
}

#[derive(Serialize)]
struct ProcessOutcome {
    pid: u32,
    ended: bool,
    resident_from: &'static str,
    cpu_seconds: f64,
    #[serde(flatten)]
    cost: ServerCost,
    phases: IndexMap<String, PhaseCost>,
}

/// Circumstances of a sample.
struct SamplePoint {
    due: SampleReason,
    phase: String,
    is_fast: bool,
    /// Whether the sample is taken after loadgen has dropped its connections.
    is_after_run: bool,
}

async fn fetch_timers(admin: &mut AdminClient) -> Result<timers::TimerReport, String> {
    let answer = timeout(ANSWER_TIMEOUT, admin.get(timers::PATH)).await;
    timers::parse(&answer.map_err(|_| format!("no answer within {} ms", ANSWER_TIMEOUT.as_millis()))??)
}

impl ServerProcess {
    fn open(pid: u32, recorder: &Recorder) -> Result<Self, String> {
        let process = SampledProcess::open(pid)?;
        let before = process.reading().map_err(|why| match why {
            ReadingError::Ended => format!("process {pid} has ended"),
            ReadingError::Other(why) => format!("cannot sample process {pid}: {why}"),
        })?;
        let gauge = |name: &str| {
            let gauge = Gauge::default();
            recorder.gauge(&format!("server.{name}"), &gauge);
            gauge
        };
        let server = Self {
            pid,
            resident_from: process.resident_from(),
            process,
            account: Account::new(before),
            phases: Phases::default(),
            has_ended: false,
            cores: gauge("cores"),
            resident_bytes: gauge("resident_bytes"),
            descriptors: gauge("descriptors"),
            threads: gauge("threads"),
        };
        #[expect(clippy::cast_precision_loss, reason = "no process takes near 2^53 bytes")]
        server.resident_bytes.set(Some(before.resident_bytes as f64));
        Ok(server)
    }

    /// Adds these phases without measurements.
    fn add_placeholder_phases(&mut self, names: &[String]) {
        if let Ok(reading) = self.process.reading() {
            for name in names {
                self.phases.add(name, &reading, None);
            }
        }
    }

    fn add(
        &mut self,
        reading: Result<Reading, ReadingError>,
        load: ServerLoad,
        at: &SamplePoint,
        log: &ProgressLog,
    ) {
        match reading {
            Ok(reading) => {
                let ends_phase = self.phases.current() != at.phase;
                let cores = if at.is_after_run {
                    self.account.end(reading, load, at.is_fast)
                } else if ends_phase || at.is_fast {
                    self.account.add_fast(reading, load, ends_phase)
                } else {
                    self.account.add_each_second(reading, load)
                };
                let mean = self.phases.add(&at.phase, &reading, cores);
                self.account.end_phase(mean);
                self.update_gauges(Some(&reading));
            }
            Err(why) => {
                self.update_gauges(None);
                if why == ReadingError::Ended && !self.has_ended {
                    self.has_ended = true;
                    self.account.end_phase(self.phases.end());
                    log.line(&format!("process {} (--pid) ended during the run", self.pid));
                }
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "no process takes near 2^53 bytes")]
    fn update_gauges(&self, reading: Option<&Reading>) {
        match reading {
            // Raise the gauges instead of setting them, so that the series shows the highest value since its
            // last sample and contains the peaks.
            Some(reading) => {
                self.cores.raise(self.account.cores());
                self.resident_bytes.raise(Some(reading.resident_bytes as f64));
            }
            None => {
                self.cores.set(None);
                self.resident_bytes.set(None);
            }
        }
        self.descriptors.set(reading.and_then(|reading| reading.descriptors).map(|count| count as f64));
        self.threads.set(reading.map(|reading| reading.threads as f64));
    }

    fn outcome(&self) -> ProcessOutcome {
        ProcessOutcome {
            pid: self.pid,
            ended: self.has_ended,
            resident_from: self.resident_from,
            cpu_seconds: self.account.cpu_seconds(),
            cost: self.account.outcome(),
            phases: self.phases.outcome(),
        }
    }
}
