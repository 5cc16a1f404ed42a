//! The command line, as typed by the user and checked by clap.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use crate::admin::AdminUrl;
use crate::assertion::Assertion;
use crate::target::Target;

/// Loads a session server and breaks its sessions on purpose.
///
/// Exit code: 0 done, 1 the scenario could not run at all, 2 bad usage (also an assertion that names no number of
/// the report), 99 an assertion does not hold.
#[derive(Debug, Parser)]
#[command(name = "loadgen", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) scenario: Scenario,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Scenario {
    /// Connect at a rate, answer pings, stay: how many idle connections does the server carry?
    #[command(after_help = "Example: loadgen hold ws://127.0.0.1:8000/ws --connections 10000 --rate 2000 \
                            --duration 60s --assert 'unexpected_closes==0'")]
    Hold(Load),
    /// Stop answering pings on a share of the connections: is every dead peer noticed, on time, and no earlier?
    #[command(after_help = "Example: loadgen mute ws://127.0.0.1:8000/ws --connections 1000 --rate 1000 \
                            --duration 60s --share 0.5 --assert 'early==0' --assert 'lateness_ms.p99<50'")]
    Mute(Mute),
    /// Answer pings just before and just after the deadline: do the former live, and the latter not?
    #[command(after_help = "Example: loadgen late ws://127.0.0.1:8000/ws --connections 1000 --rate 1000 \
                            --duration 60s --margin 50ms --assert 'closed_in_time==0' --assert 'forgiven==0'")]
    Late(Late),
    /// Kill all sockets without a word and come back: are sessions kept for the whole reconnect window, and no longer?
    #[command(after_help = "Example: loadgen vanish ws://127.0.0.1:8000/ws --connections 1000 --rate 1000 \
                            --duration 5s --kill rst --margin 100ms --assert 'early==0' --assert 'overdue==0'")]
    Vanish(Vanish),
    /// Resume sessions that are alive: does the second connection get each, and is the first told why it lost it?
    #[command(
        after_help = "Example: loadgen takeover ws://127.0.0.1:8000/ws --connections 1000 --rate 1000 \
                            --duration 5s --assert 'replaced==1000' --assert 'unexpected_closes==0'"
    )]
    Takeover(Takeover),
    /// Drop all connections at once and resume every session: how long until the last one is back?
    #[command(after_help = "Example: loadgen storm ws://127.0.0.1:8000/ws --connections 10000 --rate 2000 \
                            --duration 5s --assert 'resumed==10000'")]
    Storm(Load),
    /// Publish to a channel that all connections subscribe to: does everyone get everything, once and in order?
    #[command(after_help = "Example: loadgen fanout ws://127.0.0.1:8000/ws --connections 10000 --rate 2000 \
                            --messages 1000 --publish-rate 100 --cut-after 5s --assert 'lost==0' \
                            --assert 'resumed==10000'")]
    Fanout(Fanout),
}

impl Scenario {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Hold(_) => "hold",
            Self::Mute(_) => "mute",
            Self::Late(_) => "late",
            Self::Vanish(_) => "vanish",
            Self::Takeover(_) => "takeover",
            Self::Storm(_) => "storm",
            Self::Fanout(_) => "fanout",
        }
    }

    pub(crate) fn load(&self) -> Load {
        match self {
            Self::Hold(load) | Self::Storm(load) => load.clone(),
            Self::Mute(mute) => mute.load.clone(),
            Self::Late(late) => late.load.clone(),
            Self::Vanish(vanish) => vanish.load.clone(),
            Self::Takeover(takeover) => takeover.load.clone(),
            Self::Fanout(fanout) => fanout.load(),
        }
    }
}

/// What every scenario is told.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Load {
    /// Where the server is: ws://host:port/path
    pub(crate) url: Target,
    /// How many connections to open
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: u32,
    /// How many of them to open a second; latencies count from the instant at which each was due
    #[arg(long, value_name = "R", value_parser = parse_rate)]
    pub(crate) rate: f64,
    /// How long to hold them after the last one was due, like "30s"
    #[arg(long, value_name = "D", value_parser = humantime::parse_duration)]
    pub(crate) duration: Duration,
    /// How long a connection may take to its hello
    #[arg(long, value_name = "D", default_value = "10s", value_parser = humantime::parse_duration)]
    pub(crate) connect_timeout: Duration,
    /// Write the report as JSON to this file, or with "-" to stdout in place of the table
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Exit with 99 unless this holds: a number of the report, one of < <= > >= == !=, a number (repeatable)
    #[arg(long = "assert", value_name = "EXPR")]
    pub(crate) assertions: Vec<Assertion>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Mute {
    #[command(flatten)]
    pub(crate) load: Load,
    /// The share of the connections that stops answering, above 0 and up to 1
    #[arg(long, value_name = "S", default_value = "1.0", value_parser = parse_share)]
    pub(crate) share: f64,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Late {
    #[command(flatten)]
    pub(crate) load: Load,
    /// How long before the deadline every other connection answers, and how long after it the others do
    #[arg(long, value_name = "D", default_value = "50ms", value_parser = humantime::parse_duration)]
    pub(crate) margin: Duration,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Vanish {
    #[command(flatten)]
    pub(crate) load: Load,
    /// How a socket is killed
    #[arg(long, value_enum, default_value_t = Kill::Rst)]
    pub(crate) kill: Kill,
    /// One half comes back this long before the reconnect window ends, the other half this long after it
    #[arg(long, value_name = "D", default_value = "250ms", value_parser = humantime::parse_duration)]
    pub(crate) margin: Duration,
}

/// How a socket ends without a Close frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kill {
    /// By a reset
    Rst,
    /// By the end of the stream
    Fin,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Takeover {
    #[command(flatten)]
    pub(crate) load: Load,
    /// The close code that the first connection is to get
    #[arg(long, value_name = "CODE", default_value = "4100", value_parser = clap::value_parser!(u16).range(1000..5000))]
    pub(crate) code: u16,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Fanout {
    /// Where the server is: ws://host:port/path
    url: Target,
    /// How many subscribers to connect
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// How many of them to connect a second
    #[arg(long, value_name = "R", default_value = "1000", value_parser = parse_rate)]
    rate: f64,
    /// The channel to subscribe and publish to
    #[arg(long, value_name = "NAME", default_value = "loadgen")]
    pub(crate) channel: String,
    /// How many messages to publish
    #[arg(long, value_name = "COUNT", default_value = "100", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) messages: u32,
    /// How many of them to publish a second; latencies count from the instant at which each was due
    #[arg(long, value_name = "R", default_value = "2", value_parser = parse_rate)]
    pub(crate) publish_rate: f64,
    /// How long the JSON text of a message's data is
    #[arg(long, value_name = "BYTES", default_value = "100",
          value_parser = clap::value_parser!(u32).range(MIN_SIZE..=MAX_SIZE))]
    pub(crate) size: u32,
    /// How to publish: the command of one more WebSocket connection, or POST /api/publish at the admin listener
    #[arg(long, value_enum, default_value_t = PublishBy::Ws)]
    pub(crate) publisher: PublishBy,
    /// Where the admin listener is: http://host:port
    #[arg(long, value_name = "URL", required_if_eq("publisher", "admin"))]
    pub(crate) admin: Option<AdminUrl>,
    /// The key of the admin listener, if it wants one
    #[arg(long, value_name = "KEY", requires = "admin")]
    pub(crate) api_key: Option<String>,
    /// Cut every subscriber's connection this long after the first message was due; all come back and resume
    #[arg(long, value_name = "D", value_parser = humantime::parse_duration)]
    pub(crate) cut_after: Option<Duration>,
    /// Acknowledge every N-th message, beside answering pings; 0: never
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) ack_every: u32,
    /// How long to wait for what is missing while nothing arrives
    #[arg(long, value_name = "D", default_value = "5s", value_parser = humantime::parse_duration)]
    pub(crate) grace: Duration,
    /// How long a connection may take to its hello, and a subscription to its reply
    #[arg(long, value_name = "D", default_value = "10s", value_parser = humantime::parse_duration)]
    connect_timeout: Duration,
    /// Write the report as JSON to this file, or with "-" to stdout in place of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Exit with 99 unless this holds: a number of the report, one of < <= > >= == !=, a number (repeatable)
    #[arg(long = "assert", value_name = "EXPR")]
    assertions: Vec<Assertion>,
}

/// A message says its number and its time, which takes up to 30 bytes.
const MIN_SIZE: i64 = 32;
/// What fits into the longest message that a client reads, with room for the rest of it.
const MAX_SIZE: i64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PublishBy {
    Ws,
    Admin,
}

impl Fanout {
    /// What this scenario has in common with the others. It ends when all has arrived, not after a time.
    fn load(&self) -> Load {
        Load {
            url: self.url.clone(),
            connections: self.connections,
            rate: self.rate,
            duration: Duration::ZERO,
            connect_timeout: self.connect_timeout,
            json: self.json.clone(),
            assertions: self.assertions.clone(),
        }
    }
}

impl Kill {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rst => "rst",
            Self::Fin => "fin",
        }
    }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    parse_in(text, |rate| (0.001..=1_000_000.0).contains(&rate), "from 0.001 to 1000000")
}

fn parse_share(text: &str) -> Result<f64, String> {
    parse_in(text, |share| share > 0.0 && share <= 1.0, "above 0 and up to 1")
}

fn parse_in(text: &str, allowed: fn(f64) -> bool, range: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if allowed(number) { Ok(number) } else { Err(format!("must be {range}")) }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn clap_accepts_the_definition() {
        Args::command().debug_assert();
    }

    #[test]
    fn rates_and_shares_have_bounds() {
        assert_eq!(parse_rate("2000"), Ok(2000.0));
        assert_eq!(parse_share("0.5"), Ok(0.5));
        for bad in ["0", "-1", "nan", "inf", "x"] {
            assert!(parse_rate(bad).is_err(), "{bad}");
            assert!(parse_share(bad).is_err(), "{bad}");
        }
        assert!(parse_share("1.1").is_err());
    }
}
