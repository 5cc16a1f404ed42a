//! Options that all scenarios share.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args as ClapArgs;
use encke_client::{DialOptions, ServerUrl, Target, TokenSource};
use secrecy::SecretString;
use tokio::time::Instant;

use super::number::{parse_duration, parse_interval, parse_rate, parse_share};
use super::share::Share;
use crate::cost;
use crate::report::OutputOptions;

/// Load of a scenario, derived from its options.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) server: ServerOptions,
    pub(crate) connections: u32,
    pub(crate) rate: f64,
    pub(crate) duration: Duration,
    /// Time from the start of the run until the first connection is due.
    pub(crate) first_due: Duration,
    /// Part of the whole load, if there are several processes.
    pub(crate) part: Option<Share>,
}

impl Load {
    /// Creates a load, or the part of it that this process generates.
    pub(crate) fn new(server: &ServerOptions, connections: u32, rate: f64, duration: Duration) -> Self {
        let (server, part) = (server.clone(), server.part);
        let whole = Self { server, connections, rate, duration, first_due: Duration::ZERO, part };
        part.map_or_else(|| whole.clone(), |part| part.of(&whole))
    }

    /// Returns when the run starts.
    pub(crate) fn start(&self) -> Instant {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let until = self.server.start_at.map(Duration::from_millis).map(|at| at.saturating_sub(unix));
        Instant::now() + until.unwrap_or_default()
    }
}

/// Options that every scenario accepts.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct ServerOptions {
    /// URL of the server: ws:// or wss://; --target sse and poll: http:// or https://; bayeux: either
    pub(crate) url: ServerUrl,
    /// Protocol that the server speaks
    #[arg(long, value_enum, default_value_t)]
    pub(crate) target: Target,
    /// How long the server waits for a pong, for servers that do not announce it
    #[arg(long, value_name = "D", value_parser = parse_duration, hide_short_help = true)]
    pub(crate) pong_timeout: Option<Duration>,
    /// How long the server holds a poll while it has nothing to send, for servers that do not announce it. If
    /// the hold time is known, polls that are held too briefly or too long are reported
    #[arg(long, value_name = "D", value_parser = parse_duration, hide_short_help = true)]
    pub(crate) poll_hold: Option<Duration>,
    /// With --target bayeux: acknowledge messages with the acknowledgement extension (ext.ack). It is an
    /// error if the server does not support it
    #[arg(long, hide_short_help = true)]
    pub(crate) ext_ack: bool,
    /// Time limit for connecting until the hello arrives, and for the reply to a subscription
    #[arg(long, value_name = "D", default_value = "10s", value_parser = parse_duration, hide_short_help = true)]
    pub(crate) connect_timeout: Duration,
    /// Token that clients present to the server, as "Authorization: Bearer TOKEN". It is never printed, but
    /// other users of this machine may see it in the list of processes
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_command", hide_short_help = true)]
    pub(crate) token: Option<SecretString>,
    /// Shell command that prints such a token. It runs in each process before the first connection is opened,
    /// and again when a connection is opened or resumed less than 10 s before the token's exp
    #[arg(long, value_name = "CMD", hide_short_help = true)]
    pub(crate) token_command: Option<TokenSource>,
    #[command(flatten)]
    pub(crate) cost: cost::Sampling,
    /// Number of threads that open connections [default: half of the cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64), hide_short_help = true)]
    pub(crate) threads: Option<u32>,
    /// Internal: part of the load that this process generates, as INDEX/COUNT
    #[arg(long, hide = true)]
    part: Option<Share>,
    /// Internal: when the run starts, in milliseconds since the Unix epoch
    #[arg(long, hide = true)]
    start_at: Option<u64>,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
}

/// Connections that are opened at a given rate and then held.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct ConnectionOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// Number of connections to open
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: u32,
    /// Connections to open per second; latency counts from the time at which each connection is due
    #[arg(long, value_name = "R", default_value = "1000", value_parser = parse_rate)]
    pub(crate) rate: f64,
    /// How long to hold the connections after the last one is due, like "5m"
    #[arg(long, value_name = "D", default_value = "30s", value_parser = parse_duration)]
    pub(crate) duration: Duration,
}

impl ConnectionOptions {
    pub(super) fn load(&self) -> Load {
        Load::new(&self.server, self.connections, self.rate, self.duration)
    }
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct HoldOptions {
    #[command(flatten)]
    pub(crate) held: ConnectionOptions,
    /// Also send pings, at this interval on each connection, and measure the time until their pongs arrive
    #[arg(long, value_name = "D", value_parser = parse_interval)]
    pub(crate) ping_every: Option<Duration>,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct MuteOptions {
    #[command(flatten)]
    pub(crate) held: ConnectionOptions,
    /// Share of the connections that stops answering pings, above 0 and up to 1
    #[arg(long, value_name = "S", default_value = "1.0", value_parser = parse_share)]
    pub(crate) share: f64,
}

impl ServerOptions {
    pub(crate) fn dial_options(&self) -> DialOptions {
        let fixed = self.token.clone().map(TokenSource::fixed);
        DialOptions {
            url: self.url.clone(),
            target: self.target,
            timeout: self.connect_timeout,
            pong_timeout: self.pong_timeout,
            poll_hold: self.poll_hold,
            ext_ack: self.ext_ack,
            token: fixed.or_else(|| self.token_command.clone()),
            tls: self.cost.tls.clone(),
            receive_buffer_bytes: None,
            closes_with_reset: false,
        }
    }
}
