//! The binary `encke`: flags, configuration, logs, signals, exit code.

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
use encke_server::config::{self, Config, FEWEST_DESCRIPTORS, Settings};
use encke_server::events::NoHooks;
use encke_server::logging::Logging;
use encke_server::snapshot::show;
use encke_server::systemd::{self, InheritError, InheritedSockets, Supervisor};
use encke_server::{ListenError, Listeners, Server, StartError};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// A session server for WebSocket and server-sent events, every timeout on one timing wheel.
#[derive(Parser)]
#[command(name = "encke", version, args_conflicts_with_subcommands = true)]
#[cfg_attr(
    not(feature = "schemes"),
    command(after_help = "This build has only `hierarchical` for timers.scheme.")
)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The configuration file (TOML). See `encke config default`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where clients connect: the same as --set listen.public=ADDR.
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// The admin listener: the same as --set listen.admin=ADDR.
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    /// Any key of the configuration.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Allow listening beyond loopback without authentication.
    #[arg(long)]
    insecure: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Show or check configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the README's reference: every key, code, event and metric, as Markdown.
    Reference,
    /// Look at a snapshot.
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Ask a running server whether it is well.
    Healthcheck(healthcheck::HealthcheckArgs),
    /// Write man pages or shell completions.
    #[command(subcommand)]
    Generate(generate::GenerateCommand),
    /// Sign a token for a client, to try things out.
    Token(token::TokenArgs),
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Print every key with its default and a comment.
    Default,
    /// Check a configuration file.
    Check {
        /// The file.
        file: PathBuf,
        /// As for the server.
        #[arg(long)]
        insecure: bool,
    },
}

#[derive(Subcommand)]
enum SnapshotCommand {
    /// List what is in one. It stays where it is.
    Show {
        /// The file.
        file: PathBuf,
    },
}

/// Wrong flags and wrong configuration, as clap has it.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    match Args::parse() {
        Args { command: Some(command), .. } => command.carry_out(),
        args => {
            // Before anything is opened, which could get the number of a socket that is said to be there and is not.
            let handed_over = HandedOver::take();
            // A signal that comes from here on is not lost, and SIGHUP is not death.
            let signals = match watch_signals() {
                Ok(signals) => signals,
                Err(error) => return failed(&format!("cannot watch signals: {error}")),
            };
            match args.settings().resolve() {
                Ok(config) => run(config, handed_over, signals),
                Err(error) => wrong_usage(&error),
            }
        }
    }
}

impl Command {
    fn carry_out(self) -> ExitCode {
        match self {
            Self::Config(ConfigCommand::Default) => answer(config::default_file()),
            Self::Config(ConfigCommand::Check { file, insecure }) => {
                check(&Settings { insecure, ..Settings::of_file(&file) })
            }
            Self::Reference => answer(&encke_server::reference()),
            Self::Snapshot(SnapshotCommand::Show { file }) => match show(&file, unix_now()) {
                Ok(text) => answer(&text),
                Err(error) => failed(&format!("{}: {error}", file.display())),
            },
            Self::Token(args) => match args.sign(environment()) {
                Ok(token) => answer(&format!("{token}\n")),
                Err(error) => wrong_usage(&error),
            },
            // Also of wrong settings it says 1: container engines keep 2 for themselves.
            Self::Healthcheck(args) => match args.ask(environment()) {
                Ok(health) => answer(&health),
                Err(error) => failed(&error.to_string()),
            },
            Self::Generate(command) => match command.carry_out(&Args::command()) {
                Ok(text) => answer(&text),
                Err(error) => failed(&error.to_string()),
            },
        }
    }
}

/// What a supervisor has handed over, if there is one.
struct HandedOver {
    sockets: Result<InheritedSockets, InheritError>,
    supervisor: Supervisor,
}

impl HandedOver {
    fn take() -> Self {
        let handed_over =
            Self { sockets: InheritedSockets::take(), supervisor: Supervisor::from_environment() };
        let is_set = |name: &&str| std::env::var_os(name).is_some();
        if systemd::VARIABLES.iter().any(is_set)
            && let Err(error) = encke_sys::remove_variables(&systemd::VARIABLES)
        {
            complain(&format!("warning: the variables of systemd stay in the environment: {error}"));
        }
        handed_over
    }
}

/// Tells the supervisor that a reload is over.
struct ReadyAgain(Supervisor);

impl Drop for ReadyAgain {
    fn drop(&mut self) {
        self.0.ready();
    }
}

impl Args {
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
                complain(&format!("warning: {warning}"));
            }
            answer("the configuration is valid\n")
        }
        Err(error) => wrong_usage(&error),
    }
}

fn wrong_usage(error: &dyn Display) -> ExitCode {
    complain(&format!("encke: {error}"));
    ExitCode::from(EXIT_USAGE)
}

fn run(config: Config, handed_over: HandedOver, mut signals: Signals) -> ExitCode {
    let HandedOver { sockets, supervisor } = handed_over;
    let descriptors = descriptors();
    // 0 where the system does not say.
    if (1..FEWEST_DESCRIPTORS).contains(&descriptors) {
        return wrong_usage(&format!(
            "the process may open {descriptors} descriptors, and needs {FEWEST_DESCRIPTORS} at least: raise LimitNOFILE or `ulimit -n`"
        ));
    }
    let logging = Logging::start(&config.log);
    for warning in config.warnings(descriptors) {
        tracing::warn!("{warning}");
    }
    tracing::info!(max_sessions = config.limits.max_sessions, "room for sessions");
    #[cfg(feature = "jemalloc")]
    memory::give_back();
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
            // The server serves, also where nobody reads this.
            let _ = print(&banner(&server, descriptors));
            serve_until_signal(server, &supervisor, signals);
            ExitCode::SUCCESS
        }
        // It was waiting for what another process has.
        (Err(_), Some(signal)) => {
            tracing::info!(signal, "stopped before it began");
            ExitCode::SUCCESS
        }
        (Err(error), None) => failed(&error.to_string()),
    }
}

fn failed(message: &str) -> ExitCode {
    complain(&format!("encke: {message}"));
    ExitCode::FAILURE
}

/// The second signal to end ends the process at once, with the exit code that shells give for it.
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
            server.reload(ReadyAgain(supervisor.clone()));
        } else {
            tracing::info!(signal, "draining");
            break;
        }
    }
    supervisor.stopping();
    let left = server.drain();
    tracing::info!(connections_cut = left, "stopped");
    server.stop();
}

/// What is not UTF-8 is none of ours: keys and values of the configuration all are.
fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// How many descriptors the process may open, after raising the limit as far as it may.
fn descriptors() -> u64 {
    rlimit::increase_nofile_limit(u64::MAX).unwrap_or(0)
}

/// What a command was asked for.
fn answer(text: &str) -> ExitCode {
    match print(text) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads has enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => failed(&format!("standard output: {error}")),
    }
}

fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
