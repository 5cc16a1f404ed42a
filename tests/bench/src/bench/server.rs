//! Starts, samples and stops the servers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use clap::ValueEnum;
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;
use procfs::process::Process;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::args::BenchArgs;
use crate::placement::CpuPlacement;
use crate::{BenchFailure, to_real};

/// Time for a server to settle after it has started, or after its clients have changed.
pub(crate) const SETTLE: Duration = Duration::from_millis(500);
/// Maximum time for a server to start listening.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Servers that can be measured. Ordered from the most complete to the simplest, which is the baseline of
/// comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ServerKind {
    Encke,
    /// The same server, with other settings
    Variant,
    /// hyper and tokio-tungstenite
    Control,
    /// A bare epoll loop, without hyper and tokio-tungstenite
    Epoll,
}

impl ServerKind {
    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    pub(crate) fn is_encke(self) -> bool {
        matches!(self, Self::Encke | Self::Variant)
    }
}

/// The binaries in the same directory as this one, and the processors to run them on.
#[derive(Debug)]
pub(crate) struct Launcher {
    directory: PathBuf,
    placement: CpuPlacement,
}

impl Launcher {
    pub(crate) fn find(placement: CpuPlacement) -> Result<Self, BenchFailure> {
        let directory = std::env::current_exe()?.parent().unwrap_or(Path::new("/")).to_owned();
        match ["encke", "control"].iter().find(|name| !directory.join(name).exists()) {
            None => Ok(Self { directory, placement }),
            Some(name) => {
                Err(format!("{name} is missing: cargo build --release -p encke-server -p encke-bench").into())
            }
        }
    }

    /// Builds a command for a program in that directory, or at an absolute path. All servers get the same
    /// environment. The process is killed when it is dropped.
    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(self.directory.join(program));
        command.env_clear().env("RUST_LOG", "warn").kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    /// Starts a server, and lets it settle.
    pub(crate) async fn start(
        &self,
        kind: ServerKind,
        args: &BenchArgs,
        ping_interval: Duration,
    ) -> Result<MeasuredServer, BenchFailure> {
        let other_build = args.against.as_ref().filter(|_| kind == ServerKind::Control);
        let mut command = if kind.is_encke() || other_build.is_some() {
            let mut command = self.command(other_build.map_or(Path::new("encke"), PathBuf::as_path));
            command.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
            let intervals = [("ping_interval", ping_interval), ("pong_timeout", ping_interval / 2)];
            let own = intervals.map(|(key, time)| format!("session.{key}={}", text(time)));
            let fixed = ["timers.workers=2", "log.level=warn"].map(str::to_owned);
            // Add the user's settings last, so that they take precedence.
            for setting in own.iter().chain(&fixed).chain(args.settings(kind)) {
                command.args(["--set", setting]);
            }
            command
        } else {
            let mut command = self.command("control");
            command.args(["--interval", &text(ping_interval)]);
            command
        };
        if kind == ServerKind::Epoll {
            command.arg("--bare");
        }
        let server = self.launch(command).await?;
        sleep(SETTLE).await;
        Ok(server)
    }

    async fn launch(&self, mut command: Command) -> Result<MeasuredServer, BenchFailure> {
        let mut child = self.placement.on_server_cpu(|| command.spawn())??;
        let pid = i32::try_from(child.id().ok_or("the server has exited")?)?;
        let stdout = child.stdout.take().ok_or("the server's output is not piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let address = timeout(START_TIMEOUT, read_address(&mut lines)).await;
        let clients = address.map_err(|_| "the server did not print its address")??;
        Ok(MeasuredServer { child, pid, clients, _stdout: lines })
    }
}

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct MeasuredServer {
    child: Child,
    pid: i32,
    pub(crate) clients: SocketAddr,
    /// Kept open, because the server may still print.
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl MeasuredServer {
    /// Kills the process, and waits until it has exited.
    pub(crate) async fn stop(mut self) -> Result<(), BenchFailure> {
        Ok(self.child.kill().await?)
    }

    /// Returns the CPU time of all threads, including those that have exited, in seconds.
    pub(crate) fn cpu(&self) -> Result<f64, BenchFailure> {
        Ok(Duration::from(clock_getcpuclockid(Pid::from_raw(self.pid))?.now()?).as_secs_f64())
    }

    /// Returns the resident memory. `smaps_rollup` is exact to the page; `statm` may be off by 64 pages per
    /// CPU.
    pub(crate) fn resident_bytes(&self) -> Result<f64, BenchFailure> {
        let maps = Process::new(self.pid)?.smaps_rollup()?.memory_map_rollup;
        let bytes = maps.into_iter().find_map(|map| map.extension.map.get("Rss").copied());
        Ok(to_real(bytes.ok_or("the kernel does not report resident memory")?))
    }

    /// Returns the number of threads by name.
    pub(crate) fn threads(&self) -> Result<BTreeMap<String, u32>, BenchFailure> {
        let mut threads = BTreeMap::new();
        for task in Process::new(self.pid)?.tasks()? {
            *threads.entry(task?.stat()?.comm).or_default() += 1;
        }
        Ok(threads)
    }

    /// Returns the CPU usage over a period, in cores.
    pub(crate) async fn cpu_usage(&self, period: Duration) -> Result<f64, BenchFailure> {
        let (start, before) = (Instant::now(), self.cpu()?);
        sleep(period).await;
        Ok((self.cpu()? - before) / start.elapsed().as_secs_f64())
    }
}

/// Reads the banner up to the address of the WebSocket.
async fn read_address(lines: &mut Lines<BufReader<ChildStdout>>) -> Result<SocketAddr, BenchFailure> {
    while let Some(line) = lines.next_line().await? {
        let address = line.split_once("ws://").and_then(|(_, rest)| rest.split('/').next()?.parse().ok());
        if let Some(address) = address {
            return Ok(address);
        }
    }
    Err("the server exited before it listened".into())
}

fn text(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}
