//! Options that all scenarios share.

use std::time::Duration;

use clap::Args as ClapArgs;
use secrecy::SecretString;

use super::number::parse_rate;
use super::worker::WorkerOptions;
use crate::client::{DialOptions, TokenSource};
use crate::cost;
use crate::report::OutputOptions;
use crate::target::{ServerUrl, Target};

/// Load of a scenario, derived from its options.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) server: ServerOptions,
    pub(crate) connections: u32,
    pub(crate) rate: f64,
    pub(crate) duration: Duration,
    /// Time from the start of the run until the first connection is due.
    pub(crate) first_due: Duration,
}

/// Options that every scenario accepts.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct ServerOptions {
    /// URL of the server: ws://host:port/path; http:// with --target sse or poll; either one with bayeux
    pub(crate) url: ServerUrl,
    /// Protocol that the server speaks
    #[arg(long, value_enum, default_value_t)]
    pub(crate) target: Target,
    /// How long the server waits for a pong, for servers that do not announce it
    #[arg(long, value_name = "D", value_parser = humantime::parse_duration)]
    pub(crate) pong_timeout: Option<Duration>,
    /// How long a lost connection can be resumed, for servers that do not announce it
    #[arg(long, value_name = "D", value_parser = humantime::parse_duration)]
    pub(crate) reconnect_window: Option<Duration>,
    /// How long the server holds a poll while it has nothing to send, for servers that do not announce it. If
    /// the hold time is known, polls that are held too briefly or too long are reported
    #[arg(long, value_name = "D", value_parser = humantime::parse_duration)]
    pub(crate) poll_hold: Option<Duration>,
    /// With --target bayeux: acknowledge messages with the acknowledgement extension (ext.ack). It is an
    /// error if the server does not support it
    #[arg(long)]
    pub(crate) ext_ack: bool,
    /// Time limit for connecting until the hello arrives, and for the reply to a subscription
    #[arg(long, value_name = "D", default_value = "10s", value_parser = humantime::parse_duration)]
    pub(crate) connect_timeout: Duration,
    /// Token that clients present to the server, as "Authorization: Bearer TOKEN". It is never printed, but
    /// other users of this machine may see it in the list of processes
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_command")]
    pub(crate) token: Option<SecretString>,
    /// Shell command that prints such a token. It runs in each process before the first connection is opened,
    /// and again when a connection is opened or resumed less than 10 s before the token's exp
    #[arg(long, value_name = "CMD")]
    pub(crate) token_command: Option<SecretString>,
    #[command(flatten)]
    pub(crate) cost: cost::Sampling,
    #[command(flatten)]
    pub(crate) workers: WorkerOptions,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
}

/// Connections that are opened at a given rate and then held.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct ConnectionOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// Number of connections to open
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: u32,
    /// Connections to open per second; latency counts from the time at which each connection is due
    #[arg(long, value_name = "R", value_parser = parse_rate)]
    pub(crate) rate: f64,
    /// How long to hold the connections after the last one is due, like "30s"
    #[arg(long, value_name = "D", value_parser = humantime::parse_duration)]
    pub(crate) duration: Duration,
}

impl ConnectionOptions {
    pub(super) fn load(&self) -> Load {
        let Self { server, connections, rate, duration } = self.clone();
        Load { server, connections, rate, duration, first_due: Duration::ZERO }
    }
}

impl ServerOptions {
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
