//! Starting and ending the servers.

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

use crate::Failure;
use crate::args::Plan;
use crate::placement::Placement;

const ENCKE: &str = "encke";

/// How long a server may take to listen, or to answer its admin API.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Which server. What comes later here is barer, and what others are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Encke,
    /// The same server, with other settings
    Variant,
    /// hyper and tokio-tungstenite
    Control,
    /// Neither of them
    Epoll,
}

impl Kind {
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

/// The programs beside this one.
#[derive(Debug)]
pub(crate) struct Binaries {
    directory: PathBuf,
}

impl Binaries {
    pub(crate) fn find() -> Result<Self, Failure> {
        let own = std::env::current_exe()?;
        let directory = own.parent().unwrap_or(Path::new("/")).to_owned();
        let missing: Vec<_> =
            [ENCKE, "control", "loadgen"].into_iter().filter(|name| !directory.join(name).exists()).collect();
        if missing.is_empty() {
            return Ok(Self { directory });
        }
        let names = missing.join(", ");
        Err(format!(
            "{names} must be built first, with: cargo build --release --workspace --exclude encke-sim"
        )
        .into())
    }

    /// A program beside this one, or at its own absolute path, with an empty environment, so that both get the same; ended when
    /// it is dropped.
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
pub(crate) struct Server {
    child: Child,
    pub(crate) clients: SocketAddr,
    admin: Option<SocketAddr>,
    /// Kept open, for what it may still want to print.
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl Server {
    /// One of them, with what the plan says.
    pub(crate) async fn start(
        kind: Kind,
        plan: &Plan,
        binaries: &Binaries,
        placement: &Placement,
    ) -> Result<Self, Failure> {
        let encke = |program| {
            let pong_timeout = plan.interval / 2;
            let settings = plan.settings(kind);
            async move {
                Self::build_of_encke(program, plan.interval, pong_timeout, &settings, binaries, placement)
                    .await
            }
        };
        match (kind, &plan.against) {
            (Kind::Encke | Kind::Variant, _) => encke(Path::new(ENCKE)).await,
            (Kind::Control, Some(program)) => encke(program).await,
            (Kind::Control | Kind::Epoll, _) => {
                let mut command = binaries.command("control");
                command.arg("--interval").arg(text(plan.interval));
                command.arg("--batch").arg(text(plan.control_batch));
                if kind == Kind::Epoll {
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
        binaries: &Binaries,
        placement: &Placement,
    ) -> Result<Self, Failure> {
        let program = Path::new(ENCKE);
        Self::build_of_encke(program, ping_interval, pong_timeout, set, binaries, placement).await
    }

    async fn build_of_encke(
        program: &Path,
        ping_interval: Duration,
        pong_timeout: Duration,
        set: &[String],
        binaries: &Binaries,
        placement: &Placement,
    ) -> Result<Self, Failure> {
        let mut command = binaries.command(program);
        command.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        let own = [
            format!("session.ping_interval={}", text(ping_interval)),
            format!("session.pong_timeout={}", text(pong_timeout)),
            "timers.workers=2".to_owned(),
            "log.level=warn".to_owned(),
        ];
        // The last word is the user's.
        for setting in own.iter().chain(set) {
            command.args(["--set", setting]);
        }
        Self::launch(command, placement).await
    }

    async fn launch(mut command: Command, placement: &Placement) -> Result<Self, Failure> {
        let mut child = placement.in_servers_place(|| command.spawn())??;
        let stdout = child.stdout.take().ok_or("the server's output is not ours to read")?;
        let mut lines = BufReader::new(stdout).lines();
        let (clients, admin) = timeout(START_TIMEOUT, read_banner(&mut lines))
            .await
            .map_err(|_| "the server does not say where it listens")??;
        Ok(Self { child, clients, admin, _stdout: lines })
    }

    pub(crate) fn pid(&self) -> Result<i32, Failure> {
        let pid = self.child.id().ok_or("the server has ended")?;
        Ok(i32::try_from(pid)?)
    }

    /// Kills it, and waits until it is gone.
    pub(crate) async fn stop(mut self) -> Result<(), Failure> {
        Ok(self.child.kill().await?)
    }

    /// The admin API's answer at `path`; `None` from a server that has none.
    pub(crate) async fn ask_admin(&self, path: &str) -> Result<Option<serde_json::Value>, Failure> {
        let Some(address) = self.admin else { return Ok(None) };
        let admin = AdminClient::new(format!("http://{address}").parse()?, None);
        let mut admin = admin.map_err(|failure| failure.to_string())?;
        let answer = timeout(START_TIMEOUT, admin.get(path)).await??;
        Ok(Some(serde_json::from_slice(&answer)?))
    }
}

/// Reads up to the address of the clients, and of the admin API if that is told before it ends or pauses.
async fn read_banner(
    lines: &mut Lines<BufReader<ChildStdout>>,
) -> Result<(SocketAddr, Option<SocketAddr>), Failure> {
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
    Err("the server ended instead of listening".into())
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
