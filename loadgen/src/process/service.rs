//! A server that this process starts the way systemd does: the listeners are open before the server starts
//! and after it exits.

use std::fs::{File, OpenOptions};
use std::io;
use std::net::{TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

/// A server, its listeners, and the file for its output. Dropping this kills the server.
#[derive(Debug)]
pub(crate) struct Service {
    command: String,
    public: TcpListener,
    admin: Option<TcpListener>,
    log: Option<File>,
    child: Option<Child>,
}

impl Service {
    /// Opens the listeners. Connections are queued until [`Self::start`].
    pub(crate) fn open(
        command: &str,
        public: impl ToSocketAddrs,
        admin: Option<(&str, u16)>,
        log: Option<&Path>,
    ) -> Result<Self, String> {
        let public = TcpListener::bind(public).map_err(|error| format!("cannot listen: {error}"))?;
        let admin = admin.map(TcpListener::bind).transpose();
        let admin = admin.map_err(|error| format!("cannot listen for --admin: {error}"))?;
        let log = log.map(open_log).transpose()?;
        Ok(Self { command: command.to_owned(), public, admin, log, child: None })
    }

    pub(crate) fn start(&mut self) -> io::Result<()> {
        let (public, admin) =
            (self.public.try_clone()?, self.admin.as_ref().map(TcpListener::try_clone).transpose()?);
        let (count, names) = if admin.is_some() { (2, "public:admin") } else { (1, "public") };
        // Pass the listeners as standard input and output, which needs no unsafe code. The shell moves them
        // to the descriptors that the protocol prescribes, and then replaces itself with the server.
        let script = format!(
            "exec 3<&0 4<&1 </dev/null >&2; \
             export LISTEN_PID=$$ LISTEN_FDS={count} LISTEN_FDNAMES={names}; \
             exec {}",
            self.command
        );
        let child = Command::new("sh")
            .args(["-c", &script])
            .stdin(OwnedFd::from(public))
            .stdout(admin.map_or_else(Stdio::null, |admin| OwnedFd::from(admin).into()))
            .stderr(output_to(self.log.as_ref())?)
            .kill_on_drop(true)
            .spawn()?;
        self.child = Some(child);
        Ok(())
    }

    /// Sends SIGTERM, and waits for the server to exit.
    pub(crate) async fn stop(&mut self) -> io::Result<ExitStatus> {
        let Some(child) = &mut self.child else { return Err(io::Error::other("the server was not started")) };
        // A child that has already been waited for has no id.
        if let Some(pid) = child.id().and_then(|id| i32::try_from(id).ok()) {
            kill(Pid::from_raw(pid), Signal::SIGTERM)?;
        }
        child.wait().await
    }
}

pub(crate) async fn run_shell(command: &str, log: Option<&Path>) -> Result<ExitStatus, String> {
    let log = log.map(open_log).transpose()?;
    let run = async {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::null()).kill_on_drop(true);
        shell.stdout(output_to(log.as_ref())?).stderr(output_to(log.as_ref())?).status().await
    };
    run.await.map_err(|error| error.to_string())
}

fn open_log(path: &Path) -> Result<File, String> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.map_err(|error| format!("cannot write to {}: {error}", path.display()))
}

fn output_to(log: Option<&File>) -> io::Result<Stdio> {
    log.map_or_else(|| Ok(Stdio::null()), |log| log.try_clone().map(Stdio::from))
}
