//! The command line, as typed by the user and checked by clap.

use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use crate::compare::Compare;
use crate::cost;
use crate::parts;
use crate::target::Target;
use crate::wanted::Wanted;

/// Loads a session server and breaks its sessions on purpose.
///
/// Exit code: 0 done, 1 the scenario could not run at all, 2 bad usage (also an assertion that names no number of
/// the result), 99 an assertion does not hold.
#[derive(Debug, Parser)]
#[command(name = "loadgen", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one of them")]
pub(crate) enum Command {
    #[command(flatten)]
    Run(Scenario),
    /// Run the scenarios against a small server that breaks its promises one at a time: is every fault reported?
    #[command(
        after_help = "Exit code: 0 every fault was found and the honest server is clean, 1 otherwise.\n\n\
                            Example: loadgen selftest"
    )]
    Selftest,
    /// Put the results of several runs side by side, with ratios to the first
    #[command(
        after_help = "Example: loadgen compare before/result.json after/result.json --report difference"
    )]
    Compare(Compare),
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
            Self::Storm(_) => "storm",
            Self::Fanout(_) => "fanout",
        }
    }

    /// Why it cannot be spread over several processes, if it cannot.
    pub(crate) fn needs_one_process(&self) -> Option<&'static str> {
        match self {
            Self::Fanout(_) => {
                Some("one publisher serves all subscribers, and one process must see all that arrives")
            }
            Self::Hold(_) | Self::Mute(_) | Self::Storm(_) => None,
        }
    }

    pub(crate) fn load(&self) -> Load {
        match self {
            Self::Hold(load) | Self::Storm(load) => load.clone(),
            Self::Mute(mute) => mute.load.clone(),
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
    #[command(flatten)]
    pub(crate) cost: cost::Sampling,
    #[command(flatten)]
    pub(crate) parts: parts::Processes,
    /// From the start to when the first connection is due
    #[arg(skip)]
    pub(crate) first_due: Duration,
    #[command(flatten)]
    pub(crate) wanted: Wanted,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Mute {
    #[command(flatten)]
    pub(crate) load: Load,
    /// The share of the connections that stops answering, above 0 and up to 1
    #[arg(long, value_name = "S", default_value = "1.0", value_parser = parse_share)]
    pub(crate) share: f64,
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
    #[arg(long, value_enum, default_value_t = PublishBy::Ws, requires_if("admin", "admin"))]
    pub(crate) publisher: PublishBy,
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
    #[command(flatten)]
    pub(crate) cost: cost::Sampling,
    #[command(flatten)]
    pub(crate) parts: parts::Processes,
    #[command(flatten)]
    wanted: Wanted,
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
            cost: cost::Sampling {
                admin_is_for_publishing: self.publisher == PublishBy::Admin,
                ..self.cost.clone()
            },
            parts: self.parts.clone(),
            first_due: Duration::ZERO,
            wanted: self.wanted.clone(),
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
