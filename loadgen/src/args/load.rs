//! What scenarios have in common.

use std::time::Duration;

use clap::Args as ClapArgs;

use super::number::parse_rate;
use super::worker::WorkerOptions;
use crate::client::{DialOptions, Secret, TokenSource};
use crate::cost;
use crate::report::OutputOptions;
use crate::target::{ServerUrl, Target};

/// The load that every scenario works with.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) server: Server,
    pub(crate) connections: u32,
    pub(crate) rate: f64,
    pub(crate) duration: Duration,
    /// From the start to when the first connection is due.
    pub(crate) first_due: Duration,
}

/// The options of every scenario.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Server {
    /// Where the server is: ws://host:port/path, or http:// for --target sse and poll; either for bayeux
    pub(crate) url: ServerUrl,
    /// What the server speaks
    #[arg(long, value_enum, default_value_t)]
    pub(crate) target: Target,
    /// How long the server waits for a pong, where it does not say so itself
    #[arg(long, value_name = "D", value_parser = humantime::parse_duration)]
    pub(crate) pong_timeout: Option<Duration>,
    /// How long a lost connection can be resumed, where the server does not say so itself
    #[arg(long, value_name = "D", value_parser = humantime::parse_duration)]
    pub(crate) reconnect_window: Option<Duration>,
    /// How long the server holds a poll for which it has nothing, where it does not say so itself: then what it holds too short or
    /// too long is told
    #[arg(long, value_name = "D", value_parser = humantime::parse_duration)]
    pub(crate) poll_hold: Option<Duration>,
    /// With --target bayeux: acknowledge messages by the extension for that (ext.ack). A server that has it not is an error
    #[arg(long)]
    pub(crate) ext_ack: bool,
    /// How long a connection may take to its hello, and a subscription to its reply
    #[arg(long, value_name = "D", default_value = "10s", value_parser = humantime::parse_duration)]
    pub(crate) connect_timeout: Duration,
    /// What clients show the server to be let in, as "Authorization: Bearer TOKEN". It is never printed, but other users of
    /// this machine may see it among the processes
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_command")]
    pub(crate) token: Option<Secret>,
    /// A command of the shell that writes such a token. It is run before the first connection is opened, in each process, and
    /// again when one is opened, for the first time or to resume, and the token's exp is less than 10 s away
    #[arg(long, value_name = "CMD")]
    pub(crate) token_command: Option<Secret>,
    #[command(flatten)]
    pub(crate) cost: cost::Sampling,
    #[command(flatten)]
    pub(crate) workers: WorkerOptions,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
}

/// Connections that come at a rate and are held for a time.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Held {
    #[command(flatten)]
    pub(crate) server: Server,
    /// How many connections to open
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: u32,
    /// How many of them to open a second; latencies count from the instant at which each was due
    #[arg(long, value_name = "R", value_parser = parse_rate)]
    pub(crate) rate: f64,
    /// How long to hold them after the last one was due, like "30s"
    #[arg(long, value_name = "D", value_parser = humantime::parse_duration)]
    pub(crate) duration: Duration,
}

impl Held {
    pub(super) fn load(&self) -> Load {
        let Self { server, connections, rate, duration } = self.clone();
        Load { server, connections, rate, duration, first_due: Duration::ZERO }
    }
}

impl Server {
    pub(crate) fn dial_options(&self) -> DialOptions {
        let fixed = self.token.clone().map(TokenSource::Fixed);
        let command = self.token_command.clone().map(TokenSource::Command);
        DialOptions {
            url: self.url.clone(),
            target: self.target,
            timeout: self.connect_timeout,
            pong_timeout: self.pong_timeout,
            reconnect_window: self.reconnect_window,
            poll_hold: self.poll_hold,
            ext_ack: self.ext_ack,
            token: fixed.or(command),
        }
    }
}
