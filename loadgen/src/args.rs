//! The command line, as typed by the user and checked by clap.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand};

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
    /// Drop all connections at once and resume every session: how long until the last one is back?
    #[command(after_help = "Example: loadgen storm ws://127.0.0.1:8000/ws --connections 10000 --rate 2000 \
                            --duration 5s --assert 'resumed==10000'")]
    Storm(Load),
}

impl Scenario {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Hold(_) => "hold",
            Self::Mute(_) => "mute",
            Self::Storm(_) => "storm",
        }
    }

    pub(crate) fn load(&self) -> &Load {
        match self {
            Self::Hold(load) | Self::Storm(load) => load,
            Self::Mute(mute) => &mute.load,
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
