//! Starts and stops the servers.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use clap::ValueEnum;
use encke_loadgen::AdminClient;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::BenchFailure;
use crate::args::Plan;
use crate::placement::CpuPlacement;

const ENCKE: &str = "encke";

/// Maximum time for a server to start listening, or to respond on its admin API.
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
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Encke => "encke",
            Self::Variant => "variant",
            Self::Control => "control",
            Self::Epoll => "epoll",
        }
    }

    pub(crate) fn is_encke(self) -> bool {
        matches!(self, Self::Encke | Self::Variant)
    }
}

/// The binaries in the same directory as this one.
#[derive(Debug)]
pub(crate) struct BenchBinaries {
    directory: PathBuf,
}

impl BenchBinaries {
    pub(crate) fn find() -> Result<Self, BenchFailure> {
        let own = std::env::current_exe()?;
        let directory = own.parent().unwrap_or(Path::new("/")).to_owned();
        let missing: Vec<_> =
            [ENCKE, "control", "loadgen"].into_iter().filter(|name| !directory.join(name).exists()).collect();
        if missing.is_empty() {
            return Ok(Self { directory });
        }
        let names = missing.join(", ");
        Err(format!("{names} must be built first: cargo build --release --workspace --exclude encke-sim")
            .into())
    }

    /// Builds a command for a program in that directory, or at an absolute path. All servers get the same
    /// environment. The process is killed when it is dropped.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(self.directory.join(program));
        command
            .env_clear()
            .env("RUST_LOG", "warn")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        command
    }
}

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct MeasuredServer {
    child: Child,
    pub(crate) clients: SocketAddr,
    admin: Option<SocketAddr>,
    /// Kept open, because the server may still print.
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl MeasuredServer {
    /// Starts a server with the settings of the plan.
    pub(crate) async fn start(
        kind: ServerKind,
        plan: &Plan,
        binaries: &BenchBinaries,
        placement: &CpuPlacement,
    ) -> Result<Self, BenchFailure> {
        let encke = |program| {
            let pong_timeout = plan.interval / 2;
            let settings = plan.settings(kind);
            async move {
                Self::start_encke(program, plan.interval, pong_timeout, &settings, binaries, placement).await
            }
        };
        match (kind, &plan.against) {
            (ServerKind::Encke | ServerKind::Variant, _) => encke(Path::new(ENCKE)).await,
            (ServerKind::Control, Some(program)) => encke(program).await,
            (ServerKind::Control | ServerKind::Epoll, _) => {
                let mut command = binaries.command("control");
                command.arg("--interval").arg(text(plan.interval));
                command.arg("--batch").arg(text(plan.control_batch));
                if kind == ServerKind::Epoll {
                    command.arg("--bare");
                }
                Self::launch(command, placement).await
            }
        }
    }

    pub(crate) async fn encke(
        ping_interval: Duration,
        pong_timeout: Duration,
        set: &[String],
        binaries: &BenchBinaries,
        placement: &CpuPlacement,
    ) -> Result<Self, BenchFailure> {
        let program = Path::new(ENCKE);
        Self::start_encke(program, ping_interval, pong_timeout, set, binaries, placement).await
    }

    async fn start_encke(
        program: &Path,
        ping_interval: Duration,
        pong_timeout: Duration,
        set: &[String],
        binaries: &BenchBinaries,
        placement: &CpuPlacement,
    ) -> Result<Self, BenchFailure> {
        let mut command = binaries.command(program);
        command.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        let own = [
            format!("session.ping_interval={}", text(ping_interval)),
            format!("session.pong_timeout={}", text(pong_timeout)),
            "timers.workers=2".to_owned(),
            "log.level=warn".to_owned(),
        ];
        // Add the user's settings last, so that they take precedence.
        for setting in own.iter().chain(set) {
            command.args(["--set", setting]);
        }
        Self::launch(command, placement).await
    }

    async fn launch(mut command: Command, placement: &CpuPlacement) -> Result<Self, BenchFailure> {
        let mut child = placement.on_server_cpu(|| command.spawn())??;
        let stdout = child.stdout.take().ok_or("the server's output is not piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let (clients, admin) = timeout(START_TIMEOUT, read_banner(&mut lines))
            .await
            .map_err(|_| "the server did not print its addresses")??;
        Ok(Self { child, clients, admin, _stdout: lines })
    }

    pub(crate) fn pid(&self) -> Result<i32, BenchFailure> {
        let pid = self.child.id().ok_or("the server has exited")?;
        Ok(i32::try_from(pid)?)
    }

    /// Kills the process, and waits until it has exited.
    pub(crate) async fn stop(mut self) -> Result<(), BenchFailure> {
        Ok(self.child.kill().await?)
    }

    /// Returns the response of the admin API at `path`, or `None` if the server has no admin API.
    pub(crate) async fn query_admin(&self, path: &str) -> Result<Option<serde_json::Value>, BenchFailure> {
        let Some(address) = self.admin else { return Ok(None) };
        let admin = AdminClient::new(format!("http://{address}").parse()?, None);
        let mut admin = admin.map_err(|failure| failure.to_string())?;
        let answer = timeout(START_TIMEOUT, admin.get(path)).await??;
        Ok(Some(serde_json::from_slice(&answer)?))
    }
}

/// Reads the banner up to the client address and, for Encke, the admin address.
async fn read_banner(
    lines: &mut Lines<BufReader<ChildStdout>>,
) -> Result<(SocketAddr, Option<SocketAddr>), BenchFailure> {
    let mut clients = None;
    let mut admin = None;
    let mut wants_admin = false;
    while let Some(line) = lines.next_line().await? {
        wants_admin |= line.starts_with("encke");
        if let Some(address) = address_after(&line, "ws://") {
            clients.get_or_insert(address);
        }
        if let Some(address) = address_after(&line, "http://") {
            admin.get_or_insert(address);
        }
        if let Some(clients) = clients
            && (admin.is_some() || !wants_admin)
        {
            return Ok((clients, admin));
        }
    }
    Err("the server exited before it listened".into())
}

fn address_after(line: &str, scheme: &str) -> Option<SocketAddr> {
    line.split_once(scheme)?.1.split('/').next()?.parse().ok()
}

fn text(duration: Duration) -> String {
    humantime::format_duration(duration).to_string().replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_a_banner() {
        let address = "127.0.0.1:8000".parse().ok();
        assert_eq!(address_after("  clients      ws://127.0.0.1:8000/ws", "ws://"), address);
        assert_eq!(address_after("  admin        http://127.0.0.1:8000/api", "http://"), address);
        assert_eq!(address_after("  admin        http://127.0.0.1:8000/api", "ws://"), None);
    }
}
