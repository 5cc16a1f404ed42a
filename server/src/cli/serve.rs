//! `encke` without a command: the server as a process, with its signals, its supervisor and its exit code.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use encke_base::process::systemd::{self, InheritError, InheritedSockets, Supervisor};
use encke_timeouts::clock::monotonic_now;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::banner::banner;
use super::logging::Logging;
use super::output::{failure, print, print_error, usage_error};
use super::signals::{ReceivedSignals, SignalRequest};
use crate::config::{Config, MIN_DESCRIPTORS, Settings};
use crate::events::NoHooks;
use crate::server::{ListenError, Listeners};
use crate::server::{Server, StartError};

/// Runs the server until a signal ends it.
pub(super) fn run(settings: &Settings, reload: io::Result<Arc<AtomicBool>>) -> ExitCode {
    // Take the inherited sockets before opening any file: otherwise a file could get the number of a socket
    // that systemd announced but did not pass.
    let handed_over = SystemdHandover::take();
    let signals = match reload.and_then(ReceivedSignals::watch) {
        Ok(signals) => signals,
        Err(error) => return failure(&format!("cannot watch signals: {error}")),
    };
    match settings.resolve() {
        Ok(config) => serve(config, handed_over, &signals),
        Err(error) => usage_error(&error),
    }
}

/// Sockets and supervisor passed by systemd, if it started the process.
struct SystemdHandover {
    sockets: Result<InheritedSockets, InheritError>,
    supervisor: Supervisor,
}

impl SystemdHandover {
    fn take() -> Self {
        let handed_over =
            Self { sockets: InheritedSockets::take(), supervisor: Supervisor::from_environment() };
        let is_set = |name: &&str| std::env::var_os(name).is_some();
        if systemd::VARIABLES.iter().any(is_set)
            && let Err(error) = encke_sys::remove_variables(&systemd::VARIABLES)
        {
            print_error(&format!("warning: cannot remove systemd's variables from the environment: {error}"));
        }
        handed_over
    }
}

/// Notifies the supervisor, when dropped, that a reload has finished.
struct ReloadGuard(Supervisor);

impl Drop for ReloadGuard {
    fn drop(&mut self) {
        self.0.ready();
    }
}

fn serve(config: Config, handed_over: SystemdHandover, signals: &ReceivedSignals) -> ExitCode {
    let SystemdHandover { sockets, supervisor } = handed_over;
    let descriptors = raise_descriptor_limit();
    // 0 means that the system did not report a limit.
    if (1..MIN_DESCRIPTORS).contains(&descriptors) {
        return usage_error(&format!(
            "the process may open {descriptors} descriptors, but needs at least {MIN_DESCRIPTORS}: raise LimitNOFILE or `ulimit -n`"
        ));
    }
    let logging = Logging::start(&config.log);
    for warning in config.warnings(descriptors) {
        tracing::warn!(%warning, "configuration warning");
    }
    tracing::info!(max_sessions = config.limits.max_sessions, "session limit");
    #[cfg(feature = "jemalloc")]
    super::memory::return_free_memory();
    let mut is_over = || signals.shutdown().is_some();
    let listeners = sockets
        .map_err(ListenError::from)
        .and_then(|sockets| Listeners::inherit_or_bind(&config, sockets, &mut is_over));
    let server = listeners.map_err(StartError::from).and_then(|listeners| {
        let claimed = Server::claim_snapshot(&config, &mut is_over)?;
        Server::start_on(listeners, claimed, config, Box::new(NoHooks), logging.dropped())
    });
    match (server, signals.shutdown()) {
        (Ok(server), _) => {
            // Ignore errors, because the server must run even if its standard output is not read.
            let _ = print(&banner(&server, descriptors));
            serve_until_signal(server, &supervisor, signals)
        }
        // A signal arrived while the server waited for an address or a snapshot that another process was
        // using.
        (Err(_), Some(signal)) => {
            tracing::info!(signal, "stopped before serving");
            ExitCode::SUCCESS
        }
        (Err(error), None) => failure(&error.to_string()),
    }
}

/// Serves until a signal requests the shutdown. Fails if sessions were lost because the snapshot cannot be
/// written.
fn serve_until_signal(server: Server, supervisor: &Supervisor, signals: &ReceivedSignals) -> ExitCode {
    let (public, admin) = (server.public_address(), server.admin_address());
    tracing::info!(%public, %admin, "serving");
    server.feed_watchdog(supervisor.clone());
    supervisor.ready();
    let signal = loop {
        match signals.next() {
            SignalRequest::Reload => {
                supervisor.reloading(monotonic_now());
                server.reload(ReloadGuard(supervisor.clone()));
            }
            SignalRequest::Shutdown(signal) => break signal,
        }
    };
    tracing::info!(signal, "draining");
    supervisor.stopping();
    let drained = server.drain(&signals.hurry);
    tracing::info!(connections_dropped = drained.connections_left, "stopped");
    server.stop();
    if drained.is_snapshot_lost { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Raises the limit on file descriptors as much as allowed, and returns it.
pub(super) fn raise_descriptor_limit() -> u64 {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    // rustix represents "unlimited" by `None`.
    raised.map_or(0, |()| maximum.unwrap_or(u64::MAX))
}
