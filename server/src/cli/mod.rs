//! The command line of `encke`.

mod banner;
mod healthcheck;
mod logging;
#[cfg(feature = "jemalloc")]
mod memory;
mod output;
mod serve;
mod signals;
mod token;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory, Parser, Subcommand};
use encke_timeouts::clock::unix_now;

use crate::config::{self, Settings};
use crate::snapshot::show;
use output::{failure, print_error, print_result, usage_error};

/// Version of the server. In builds by the scripts in `deploy/`, it includes the commit and its date.
const VERSION: &str = match option_env!("ENCKE_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// Runs the command that the process's arguments specify.
#[must_use]
pub fn main() -> ExitCode {
    // Do this first, because SIGHUP terminates the process until then.
    let reload = signals::catch_sighup();
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    if let Err(error) = encke_sys::use_only_hosts_and_dns() {
        return failure(&format!("cannot configure the lookup of host names: {error}"));
    }
    match Cli::parse() {
        Cli { command: Some(command), .. } => command.execute(),
        Cli { config, flags, .. } => serve::run(&flags.settings(config), reload),
    }
}

/// Returns the definition of the command line, for man pages and completions.
#[must_use]
pub fn command() -> Command {
    Cli::command()
}

/// Session server for WebSocket, server-sent events and long-polling, with every timeout on one timing wheel.
#[derive(Parser)]
#[command(name = "encke", version = VERSION, args_conflicts_with_subcommands = true)]
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
    #[command(flatten)]
    flags: ConfigFlags,
}

// Flags that override the configuration file. A doc comment would become the help of every command with them.
#[derive(Args)]
struct ConfigFlags {
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
    /// Inspect a snapshot.
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Check the health of a running server.
    Healthcheck(healthcheck::HealthcheckArgs),
    /// Sign a client token, for testing.
    Token(token::TokenArgs),
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Print every key with its default and a comment.
    Default,
    /// Check the configuration that a server would use with this file, these flags and this environment.
    Check {
        /// The configuration file.
        file: Option<PathBuf>,
        /// The configuration file, as the server's flag.
        #[arg(long, value_name = "FILE", conflicts_with = "file")]
        config: Option<PathBuf>,
        #[command(flatten)]
        flags: ConfigFlags,
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

impl CliCommand {
    fn execute(self) -> ExitCode {
        match self {
            Self::Config(ConfigCommand::Default) => print_result(config::default_file()),
            Self::Config(ConfigCommand::Check { file, config, flags }) => {
                check(&flags.settings(file.or(config)))
            }
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
        }
    }
}

impl ConfigFlags {
    /// Returns the settings from these flags, this file and the environment.
    fn settings(self, file: Option<PathBuf>) -> Settings {
        let addresses = [("listen.public", self.listen), ("listen.admin", self.admin)];
        let addresses =
            addresses.into_iter().filter_map(|(key, address)| Some(format!("{key}={}", address?)));
        Settings {
            file,
            environment: environment(),
            flags: self.set.into_iter().chain(addresses).collect(),
            insecure: self.insecure,
        }
    }
}

fn check(settings: &Settings) -> ExitCode {
    match settings.resolve() {
        Ok(config) => {
            for warning in config.warnings(serve::raise_descriptor_limit()) {
                print_error(&format!("warning: {warning}"));
            }
            print_result("the configuration is valid\n")
        }
        Err(error) => usage_error(&error),
    }
}

/// Returns the environment without variables that are not UTF-8. All keys and values of the configuration are
/// UTF-8.
fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}
