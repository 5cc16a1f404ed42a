//! CPU, memory, descriptors and threads of the server and of loadgen, sampled every second, and Encke's timer
//! statistics.

mod process;
mod timers;

use std::time::Duration;

use clap::Args;
use encke_client::{AdminClient, AdminUrl, TlsOptions};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use self::process::ProcessCost;
pub(crate) use self::process::ServerLoad;
use self::timers::{TimerReport, TimersCost};
use crate::process::{Reading, ReadingError, SampledProcess};
use crate::progress::ProgressLog;
use crate::result::{Group, Sample};

/// Time limit for a response from the admin API. A later response would belong to the next second.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(800);

/// Options that select how the server is sampled.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Sampling {
    /// Sample this process, the server, every second: CPU, resident memory, descriptors, threads
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Server")]
    pub(crate) pid: Option<u32>,
    /// Encke's admin listener, http://host:port or https://host:port, whose timers are sampled every second
    #[arg(long, value_name = "URL", help_heading = "Server", hide_short_help = true)]
    pub(crate) admin: Option<AdminUrl>,
    /// Key of the admin listener, if it requires one
    #[arg(long, value_name = "KEY", requires = "admin", help_heading = "Server", hide_short_help = true)]
    pub(crate) api_key: Option<String>,
    #[command(flatten, next_help_heading = "Server")]
    pub(crate) tls: TlsOptions,
    /// Whether the admin listener is used for publishing and need not report timers.
    #[arg(skip)]
    pub(crate) admin_is_for_publishing: bool,
}

#[derive(Debug)]
pub(crate) struct Cost {
    server: Option<Sampled>,
    timers: Option<(AdminClient, TimersCost)>,
    /// Loadgen's own process. `None` without `/proc`.
    own: Option<Sampled>,
    log: ProgressLog,
}

#[derive(Debug)]
struct Sampled {
    process: SampledProcess,
    cost: ProcessCost,
    has_ended: bool,
}

impl Cost {
    /// Takes the first sample, before the run. Returns an error if something that the user requested cannot
    /// be sampled.
    pub(crate) async fn open(options: &Sampling, log: &ProgressLog) -> Result<Self, String> {
        let open = |pid| {
            let process = SampledProcess::open(pid)?;
            Sampled::begin(process).map_err(|why| format!("cannot sample process {pid}: {why}"))
        };
        let own = SampledProcess::own().and_then(|process| Sampled::begin(process).ok());
        let server = options.pid.map(open).transpose()?;
        Ok(Self { server, timers: open_timers(options).await?, own, log: log.clone() })
    }

    /// Adds the current usage to a sample. `own_load` is the load of this process, one of `parts`.
    pub(crate) async fn sample(
        &mut self,
        own_load: ServerLoad,
        parts: u32,
        phases: &[String],
        sample: &mut Sample,
    ) {
        let [server, own] = self.read().await;
        for (name, process, reading, load) in [
            ("server", &mut self.server, server, own_load.times(parts)),
            ("loadgen", &mut self.own, own, own_load),
        ] {
            match (process, reading) {
                (Some(process), Some(Ok(reading))) => {
                    let cores = process.cost.add(&reading, load, phases);
                    add_gauges(name, &reading, cores, sample);
                }
                (Some(process), Some(Err(ReadingError::Ended))) if !process.has_ended => {
                    process.has_ended = true;
                    self.log.line(&format!("process {} (--pid) ended during the run", process.process.pid()));
                }
                _ => {}
            }
        }
        if let Some((admin, cost)) = &mut self.timers {
            match fetch_timers(admin).await {
                Ok(timers) => cost.add(timers, sample),
                Err(why) => {
                    if cost.add_missed() {
                        self.log.line(&format!("a sample of the admin API is missing: {why}"));
                    }
                }
            }
        }
    }

    /// Takes the last sample, after loadgen has dropped its connections.
    pub(crate) async fn end(&mut self) {
        let readings = self.read().await;
        for (process, reading) in [&mut self.server, &mut self.own].into_iter().zip(readings) {
            if let (Some(process), Some(Ok(reading))) = (process, reading) {
                process.cost.end(&reading);
            }
        }
    }

    /// Reads the server and loadgen itself, on another thread than the one that keeps the time: to compute
    /// resident memory, the kernel walks all mappings of a process.
    async fn read(&self) -> [Option<Result<Reading, ReadingError>>; 2] {
        let running = |it: &Option<Sampled>| Some(it.as_ref().filter(|it| !it.has_ended)?.process.clone());
        let processes = [&self.server, &self.own].map(running);
        let read = spawn_blocking(move || processes.map(|process| Some(process?.reading())));
        read.await.expect("reading does not panic and is not aborted")
    }

    /// Returns the `server` part of the result, if the server was sampled.
    pub(crate) fn server(&self) -> Option<Group> {
        let process = self.server.as_ref().map(|Sampled { process, cost, has_ended }| {
            Group::default()
                .with("pid", process.pid())
                .with("ended", has_ended)
                .with("resident_from", process.resident_from())
                .and(cost.outcome())
        });
        let timers = self.timers.as_ref().map(|(_, cost)| Group::default().with("timers", cost.outcome()));
        process.into_iter().chain(timers).reduce(Group::and)
    }

    pub(crate) fn own(&self) -> Group {
        self.own.as_ref().map_or_else(Group::default, |own| own.cost.outcome())
    }
}

impl Sampled {
    fn begin(process: SampledProcess) -> Result<Self, ReadingError> {
        Ok(Self { cost: ProcessCost::new(process.reading()?), process, has_ended: false })
    }
}

#[expect(clippy::cast_precision_loss, reason = "no process takes near 2^53 bytes")]
fn add_gauges(of: &str, reading: &Reading, cores: Option<f64>, sample: &mut Sample) {
    let mut gauge = |name: &str, value| sample.gauge(&format!("{of}.{name}"), value);
    gauge("cores", cores);
    gauge("resident_bytes", Some(reading.resident_bytes as f64));
    gauge("descriptors", reading.descriptors.map(|count| count as f64));
    gauge("threads", Some(reading.threads as f64));
}

async fn open_timers(options: &Sampling) -> Result<Option<(AdminClient, TimersCost)>, String> {
    let Some(url) = &options.admin else { return Ok(None) };
    let mut admin = AdminClient::new(url.clone(), options.api_key.as_deref(), &options.tls)
        .map_err(|error| error.to_string())?;
    match fetch_timers(&mut admin).await {
        Ok(before) => Ok(Some((admin, TimersCost::new(before)))),
        Err(_) if options.admin_is_for_publishing => Ok(None),
        Err(why) => Err(format!("cannot sample the admin API: {why}")),
    }
}

async fn fetch_timers(admin: &mut AdminClient) -> Result<TimerReport, String> {
    let answer = timeout(ANSWER_TIMEOUT, admin.get(timers::PATH)).await;
    timers::parse(&answer.map_err(|_| format!("no answer within {} ms", ANSWER_TIMEOUT.as_millis()))??)
}
