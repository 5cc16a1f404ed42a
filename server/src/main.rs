//! The binary `encke`: command line, configuration, logging, signals, exit code.

mod generate;
mod healthcheck;
#[cfg(feature = "jemalloc")]
mod memory;
mod token;

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{CommandFactory, Parser, Subcommand};
use encke_server::banner::banner;
use encke_server::clock::{monotonic_now, unix_now};
use encke_server::config::{self, Config, MIN_DESCRIPTORS, Settings};
use encke_server::events::NoHooks;
use encke_server::logging::Logging;
use encke_server::snapshot::show;
use encke_server::systemd::{self, InheritError, InheritedSockets, Supervisor};
use encke_server::{ListenError, Listeners, Server, StartError};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Session server for WebSocket, server-sent events and long-polling, with every timeout on one timing wheel.
#[derive(Parser)]
#[command(name = "encke", version, args_conflicts_with_subcommands = true)]
#[cfg_attr(
    not(feature = "schemes"),
    command(after_help = "This build has only `hierarchical` for timers.scheme.")
)]
struct Cli {
    #[command(subcommand)]
    command: Option<CliCommand>,
    /// Configuration file (TOML). See `encke config default`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address that clients connect to; short for --set listen.public=ADDR.
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Address of the admin listener; short for --set listen.admin=ADDR.
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    /// Set a configuration key. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Allow listening beyond loopback without authentication.
    #[arg(long)]
    insecure: bool,
}

#[derive(Subcommand)]
enum CliCommand {
    /// Show or check the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the README's reference as Markdown: every configuration key, code, event and metric.
    Reference,
    /// Inspect a snapshot.
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Check the health of a running server.
    Healthcheck(healthcheck::HealthcheckArgs),
    /// Generate man pages or shell completions.
    #[command(subcommand)]
    Generate(generate::GenerateCommand),
    /// Sign a client token, for testing.
    Token(token::TokenArgs),
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Print every key with its default and a comment.
    Default,
    /// Check a configuration file.
    Check {
        /// The configuration file.
        file: PathBuf,
        /// Allow listening beyond loopback without authentication.
        #[arg(long)]
        insecure: bool,
    },
}

#[derive(Subcommand)]
enum SnapshotCommand {
    /// List the contents of a snapshot, without using it up.
    Show {
        /// The snapshot file.
        file: PathBuf,
    },
}

/// Exit code for invalid flags or configuration, the same as clap's.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    match Cli::parse() {
        Cli { command: Some(command), .. } => command.execute(),
        args => {
            // Take these before opening any file: otherwise the file could get the number of a socket that
            // systemd announced but did not pass.
            let handed_over = SystemdHandover::take();
            // Handle signals from the start, so that none is lost and SIGHUP does not terminate the process.
            let signals = match watch_signals() {
                Ok(signals) => signals,
                Err(error) => return failure(&format!("cannot watch signals: {error}")),
            };
            match args.settings().resolve() {
                Ok(config) => run(config, handed_over, signals),
                Err(error) => usage_error(&error),
            }
        }
    }
}

impl CliCommand {
    fn execute(self) -> ExitCode {
        match self {
            Self::Config(ConfigCommand::Default) => print_result(config::default_file()),
            Self::Config(ConfigCommand::Check { file, insecure }) => {
                check(&Settings { insecure, ..Settings::from_file(&file) })
            }
            Self::Reference => print_result(&encke_server::reference()),
            Self::Snapshot(SnapshotCommand::Show { file }) => match show(&file, unix_now()) {
                Ok(text) => print_result(&text),
                Err(error) => failure(&format!("{}: {error}", file.display())),
            },
            Self::Token(args) => match args.sign(environment()) {
                Ok(token) => print_result(&format!("{token}\n")),
                Err(error) => usage_error(&error),
            },
            // Exit with 1 even if the settings are invalid, because container engines reserve 2.
            Self::Healthcheck(args) => match args.check(environment()) {
                Ok(health) => print_result(&health),
                Err(error) => failure(&error.to_string()),
            },
            Self::Generate(command) => match command.execute(&Cli::command()) {
                Ok(text) => print_result(&text),
                Err(error) => failure(&error.to_string()),
            },
        }
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

impl Cli {
    fn settings(self) -> Settings {
        let addresses = [("listen.public", self.listen), ("listen.admin", self.admin)];
        let addresses =
            addresses.into_iter().filter_map(|(key, address)| Some(format!("{key}={}", address?)));
        Settings {
            file: self.config,
            environment: environment(),
            flags: self.set.into_iter().chain(addresses).collect(),
            insecure: self.insecure,
        }
    }
}

fn check(settings: &Settings) -> ExitCode {
    match settings.resolve() {
        Ok(config) => {
            for warning in config.warnings(descriptors()) {
                print_error(&format!("warning: {warning}"));
            }
            print_result("the configuration is valid\n")
        }
        Err(error) => usage_error(&error),
    }
}

fn usage_error(error: &dyn Display) -> ExitCode {
    print_error(&format!("encke: {error}"));
    ExitCode::from(EXIT_USAGE)
}

fn run(config: Config, handed_over: SystemdHandover, mut signals: Signals) -> ExitCode {
    let SystemdHandover { sockets, supervisor } = handed_over;
    let descriptors = descriptors();
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
    memory::return_free_memory();
    let mut ended_by = None;
    let mut is_over = || {
        ended_by = signals.pending().find(|signal| *signal != SIGHUP);
        ended_by.is_some()
    };
    let listeners = sockets
        .map_err(ListenError::from)
        .and_then(|sockets| Listeners::inherit_or_bind(&config, sockets, &mut is_over));
    let server = listeners.map_err(StartError::from).and_then(|listeners| {
        let claimed = Server::claim_snapshot(&config, &mut is_over)?;
        Server::start_on(listeners, claimed, config, Box::new(NoHooks), logging.dropped())
    });
    match (server, ended_by) {
        (Ok(server), _) => {
            // Ignore errors, because the server must run even if its standard output is not read.
            let _ = print(&banner(&server, descriptors));
            serve_until_signal(server, &supervisor, signals);
            ExitCode::SUCCESS
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

fn failure(message: &str) -> ExitCode {
    print_error(&format!("encke: {message}"));
    ExitCode::FAILURE
}

/// Registers signal handlers. A second SIGTERM or SIGINT terminates the process immediately, with the exit
/// code that shells use for the signal.
fn watch_signals() -> std::io::Result<Signals> {
    let second = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&second))?;
        signal_hook::flag::register(signal, Arc::clone(&second))?;
    }
    Signals::new([SIGTERM, SIGINT, SIGHUP])
}

fn serve_until_signal(server: Server, supervisor: &Supervisor, mut signals: Signals) {
    let (public, admin) = (server.public_address(), server.admin_address());
    tracing::info!(%public, %admin, "serving");
    server.feed_watchdog(supervisor.clone());
    supervisor.ready();
    for signal in signals.forever() {
        if signal == SIGHUP {
            supervisor.reloading(monotonic_now());
            server.reload(ReloadGuard(supervisor.clone()));
        } else {
            tracing::info!(signal, "draining");
            break;
        }
    }
    supervisor.stopping();
    let left = server.drain();
    tracing::info!(connections_dropped = left, "stopped");
    server.stop();
}

/// Returns the environment without variables that are not UTF-8. All keys and values of the configuration are
/// UTF-8.
fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Raises the limit on file descriptors as much as allowed, and returns it.
fn descriptors() -> u64 {
    rlimit::increase_nofile_limit(u64::MAX).unwrap_or(0)
}

/// Prints the result of a command.
fn print_result(text: &str) -> ExitCode {
    match print(text) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed the pipe because it has read enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => failure(&format!("standard output: {error}")),
    }
}

fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn print_error(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
