//! What the server takes, and what loadgen itself does, sampled each second: CPU, memory, descriptors, threads; and what
//! Encke says about its timers.
//!
//! [`crate::process`] reads the kernel's figures, [`timers`] Encke's, [`account`] makes peaks and means of them,
//! [`steady`] what a connection and a ping cost, [`bottleneck`] says whether the server was what was measured.

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
pub(crate) use self::bottleneck::{Bottleneck, BottleneckOutcome, Second};
use self::phases::{PhaseCost, Phases};
pub(crate) use self::sampling::Sampling;
pub(crate) use self::steady::Load;
use self::timers::{TimersAccount, TimersOutcome};
use crate::client::Admin;
use crate::process::{NoReading, Process, Reading};
use crate::progress::Log;
use crate::record::{Due, Gauge, Recorder};
use crate::result::Group;

const SAMPLE: Duration = Duration::from_secs(1);
/// Before the sample of everything else is taken, so that it has what was read for it.
const FIRST_SAMPLE: Duration = Duration::from_millis(900);
/// The admin API must answer within this; a later answer would belong to another second.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(800);

/// What is sampled.
#[derive(Debug)]
pub(crate) struct Cost {
    server: Option<Server>,
    timers: Option<(Admin, TimersAccount)>,
    /// Not where there is no /proc.
    self_usage: Option<(Process, Account)>,
    log: Log,
}

#[derive(Debug)]
struct Server {
    pid: u32,
    process: Process,
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
    /// Takes the first sample: what cannot be sampled is an error before the run.
    pub(crate) async fn open(options: &Sampling, recorder: &Recorder, log: &Log) -> Result<Self, String> {
        let server = options.pid.map(|pid| Server::open(pid, recorder)).transpose()?;
        let self_usage = Process::own();
        let self_usage = self_usage.and_then(|self_usage| Some((self_usage.reading().ok()?, self_usage)));
        let self_usage = self_usage.map(|(before, self_usage)| (self_usage, Account::new(before)));
        Ok(Self { server, timers: Self::open_timers(options, recorder).await?, self_usage, log: log.clone() })
    }

    /// With nothing measured, to know the names of what would be: this process stands for the server.
    pub(crate) fn unmeasured(options: &Sampling, phases: &[String]) -> Self {
        let (recorder, log) = (Recorder::starting_now(), Log::silent());
        let mut server = options.pid.and_then(|_| Server::open(std::process::id(), &recorder).ok());
        if let Some(server) = &mut server {
            server.expect_phases(phases);
        }
        let admin = options.admin.clone().and_then(|url| Admin::new(url, None).ok());
        let timers = admin.map(|admin| (admin, TimersAccount::new(timers::Timers::default(), &recorder)));
        let self_usage = Process::own().and_then(|process| Some((process.reading().ok()?, process)));
        let self_usage = self_usage.map(|(before, process)| (process, Account::new(before)));
        Self { server, timers, self_usage, log }
    }

    async fn open_timers(
        options: &Sampling,
        recorder: &Recorder,
    ) -> Result<Option<(Admin, TimersAccount)>, String> {
        let Some(url) = &options.admin else { return Ok(None) };
        let mut admin =
            Admin::new(url.clone(), options.api_key.as_deref()).map_err(|error| error.to_string())?;
        let before = match ask(&mut admin).await {
            Ok(before) => before,
            Err(_) if options.admin_is_for_publishing => return Ok(None),
            Err(why) => return Err(format!("cannot sample the admin API: {why}")),
        };
        Ok(Some((admin, TimersAccount::new(before, recorder))))
    }

    /// Samples each second, and at the ends of phases, as long as it is awaited. `load` is the load on the server.
    pub(crate) async fn watch(&mut self, recorder: &Recorder, load: impl Fn() -> Load) -> Infallible {
        let mut clock = recorder.clock(Instant::now() + FIRST_SAMPLE, SAMPLE);
        loop {
            let (due, _) = clock.next().await;
            let phase = recorder.current_phase();
            let at = Look { due, phase, is_close: recorder.is_looked_at_closely(), is_after: false };
            self.look(load(), &at).await;
        }
    }

    /// Takes the last sample, after loadgen has dropped its connections.
    pub(crate) async fn look_after(&mut self, recorder: &Recorder) {
        let (phase, is_close) = (recorder.current_phase(), recorder.is_looked_at_closely());
        if self.server.as_ref().is_some_and(|server| server.phases.current() != phase) {
            // It was over before it could be looked at.
            let at = Look { due: Due::Asked, phase, is_close, is_after: true };
            self.look(Load::default(), &at).await;
        }
        // It ends the last phase.
        let at = Look { due: Due::Second, phase: String::new(), is_close, is_after: true };
        self.look(Load::default(), &at).await;
    }

    async fn look(&mut self, load: Load, at: &Look) {
        let server =
            self.server.as_ref().filter(|server| !server.has_ended).map(|server| server.process.clone());
        let self_usage = self.self_usage.as_ref().filter(|_| at.due == Due::Second);
        let self_usage = self_usage.map(|(self_usage, _)| self_usage.clone());
        if server.is_none() && at.due != Due::Second {
            return;
        }
        // The kernel walks all mappings of a process to say what is resident: not on the thread that measures.
        let read = spawn_blocking(move || (server.map(|it| it.reading()), self_usage.map(|it| it.reading())));
        let (server, self_usage) = read.await.expect("reading does not panic, and is not aborted");
        if let (Some(watched), Some(reading)) = (&mut self.server, server) {
            watched.add(reading, load, at, &self.log);
        }
        if let (Some((_, account)), Some(Ok(reading))) = (&mut self.self_usage, self_usage) {
            account.add(reading, load);
        }
        if let Some((admin, account)) = &mut self.timers
            && at.due == Due::Second
        {
            match ask(admin).await {
                Ok(timers) => account.add(timers),
                Err(why) => {
                    if account.miss() {
                        self.log.line(&format!("a sample of the admin API is missing: {why}"));
                    }
                }
            }
        }
    }

    /// The `server` part of the result, if anything was asked for.
    pub(crate) fn server(&self) -> Option<Group> {
        let process = self.server.as_ref().map(Server::outcome);
        let timers = self.timers.as_ref().map(|(_, account)| account.outcome());
        (process.is_some() || timers.is_some()).then(|| Group::of(&ServerOutcome { process, timers }))
    }

    /// CPU and memory of loadgen itself.
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

/// When the server is looked at.
struct Look {
    due: Due,
    phase: String,
    is_close: bool,
    /// After loadgen has dropped its connections.
    is_after: bool,
}

async fn ask(admin: &mut Admin) -> Result<timers::Timers, String> {
    let answer = timeout(ANSWER_TIMEOUT, admin.get(timers::PATH)).await;
    timers::parse(&answer.map_err(|_| format!("no answer within {} ms", ANSWER_TIMEOUT.as_millis()))??)
}

impl Server {
    fn open(pid: u32, recorder: &Recorder) -> Result<Self, String> {
        let process = Process::open(pid)?;
        let before = process.reading().map_err(|why| match why {
            NoReading::Gone => format!("process {pid} has ended"),
            NoReading::Other(why) => format!("cannot sample process {pid}: {why}"),
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

    /// These phases, with nothing measured.
    fn expect_phases(&mut self, names: &[String]) {
        if let Ok(reading) = self.process.reading() {
            for name in names {
                self.phases.add(name, &reading, None);
            }
        }
    }

    fn add(&mut self, reading: Result<Reading, NoReading>, load: Load, at: &Look, log: &Log) {
        match reading {
            Ok(reading) => {
                let ends_phase = self.phases.current() != at.phase;
                let cores = if at.is_after {
                    self.account.end(reading, load, at.is_close)
                } else if ends_phase || at.is_close {
                    self.account.add_closely(reading, load, ends_phase)
                } else {
                    self.account.add_each_second(reading, load)
                };
                let mean = self.phases.add(&at.phase, &reading, cores);
                self.account.end_phase(mean);
                self.show(Some(&reading));
            }
            Err(why) => {
                self.show(None);
                if why == NoReading::Gone && !self.has_ended {
                    self.has_ended = true;
                    self.account.end_phase(self.phases.end());
                    log.line(&format!("process {} (--pid) has ended during the run", self.pid));
                }
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "no process takes near 2^53 bytes")]
    fn show(&self, reading: Option<&Reading>) {
        match reading {
            // The highest, so that the peaks are in the series, too.
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
