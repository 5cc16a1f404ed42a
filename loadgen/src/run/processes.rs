//! Several processes, if one may not open enough descriptors: this program starts itself for each part of the
//! load, and adds up what the parts measured.

use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use super::{MeasureError, Measured};
use crate::args::{MAX_SHARES, ScenarioOptions, Share};
use crate::process::{Signals, available_descriptors};
use crate::progress::ProgressLog;
use crate::record::{Metrics, Traffic};
use crate::report::print;

/// Time from the start of the processes to the start of the run.
const LEAD: Duration = Duration::from_millis(500);
/// Exit code of a part that the server's parameters make pointless.
const REFUSED: i32 = 2;

/// Returns the number of processes that the connections of a scenario need.
pub(super) fn needed(options: &ScenarioOptions) -> Result<u32, MeasureError> {
    let (sockets, available) = (options.sockets(), available_descriptors()?);
    if sockets <= available || options.load().part.is_some() {
        return Ok(1);
    }
    let count = sockets.div_ceil(available.max(1));
    if options.runs_on_threads() && count <= MAX_SHARES {
        return Ok(count);
    }
    let (name, processes) = (options.name(), if options.runs_on_threads() { MAX_SHARES } else { 1 });
    Err(MeasureError::Failed(format!(
        "{sockets} connections do not fit: a process may open {available} (ulimit -Hn), and the number of processes of {name} is limited to {processes}",
    )))
}

pub(super) async fn run(
    count: u32,
    options: &ScenarioOptions,
    log: &ProgressLog,
) -> Result<(Metrics, Measured), MeasureError> {
    let mut signals = Signals::listen()?;
    log.line(&format!("{count} processes, because one may not open enough files"));
    let start = SystemTime::now() + LEAD;
    let children: Vec<Child> =
        Share::all(count).iter().map(|share| spawn(*share, start)).collect::<Result<_, _>>()?;
    let pids: Vec<_> = children.iter().filter_map(|child| i32::try_from(child.id()?).ok()).collect();
    let outputs = futures_util::future::join_all(children.into_iter().map(Child::wait_with_output));
    tokio::pin!(outputs);
    let outputs = loop {
        tokio::select! {
            outputs = &mut outputs => break outputs,
            // Each part ends early, with the result so far.
            () = signals.next() => for pid in &pids {
                // A process that has already ended needs no signal.
                let _ = kill(Pid::from_raw(*pid), Signal::SIGTERM);
            }
        }
    };
    let metrics = super::local::name_numbers(options, &Traffic::default());
    let mut whole: Option<Measured> = None;
    for output in outputs {
        let output = output.map_err(|error| format!("a process failed: {error}"))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            let why = why.lines().last().unwrap_or_default().trim_start_matches("loadgen: ").to_owned();
            return Err(match output.status.code() {
                Some(REFUSED) => MeasureError::Refused(why),
                _ => MeasureError::Failed(why),
            });
        }
        let part: Measured = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("a process sent no result: {error}"))?;
        metrics.absorb(&part.numbers);
        match &mut whole {
            None => whole = Some(part),
            Some(whole) => whole.add(part),
        }
    }
    let whole = whole.ok_or_else(|| "no process ran".to_owned())?;
    Ok((metrics, Measured { loadgen: whole.loadgen.with("processes", count), ..whole }))
}

fn spawn(share: Share, start: SystemTime) -> Result<Child, String> {
    let start = start.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis().to_string();
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    Command::new(program)
        .args(std::env::args_os().skip(1))
        .args(["--part", &share.to_string(), "--start-at", &start])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("cannot start a process: {error}"))
}

/// Runs the part of a scenario that this process was started for, and prints the measurements.
pub(crate) async fn run_part(options: &ScenarioOptions, log: &ProgressLog) -> Result<(), MeasureError> {
    let (_, measured) = super::local::run(options, log).await?;
    let line = format!("{}\n", crate::result::to_json_line(&measured));
    print(&line).map_err(|error| MeasureError::Failed(format!("cannot write the measurements: {error}")))
}

impl Measured {
    fn add(&mut self, other: Self) {
        self.series.merge(&other.series);
        self.interrupted |= other.interrupted;
        self.aborted_by = self.aborted_by.take().or(other.aborted_by);
        self.elapsed = self.elapsed.max(other.elapsed);
        for (name, field) in other.loadgen.0 {
            self.loadgen.add_up(&name, field);
        }
    }
}
