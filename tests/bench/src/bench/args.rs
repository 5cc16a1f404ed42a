//! The command line, as typed and as meant.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::process::Kind;
use crate::rest::Part;

/// How many clients take part in broadcasts.
const CROWD: u32 = 10_000;
/// The first ping comes after half of it.
const WITHOUT_PINGS: Duration = Duration::from_secs(600);

/// Measures what a session costs: the server against a control that has no sessions.
///
/// All are started, pinned to one processor, loaded from another, and ended, turn by turn. The exit code does not
/// judge the figures.
#[derive(Debug, Parser)]
#[command(name = "bench")]
pub(crate) struct Args {
    /// How many connections to hold [default: 19000; with --broadcast 10000, and 10000 in parts of --rest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    connections: Option<u32>,
    /// How often to measure each server [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// The ping interval of all [default: 10s; with --broadcast 10m, so that no ping falls into it]
    #[arg(long, value_name = "D", value_parser = humantime::parse_duration)]
    interval: Option<Duration>,
    /// How many intervals to measure the heartbeat over [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    windows: Option<u32>,
    /// How many connections to open a second
    #[arg(long, value_name = "R", default_value = "2000", value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// How often the controls send the pings that are due; the default is the slack that the server's pings have
    #[arg(long, value_name = "D", default_value = "100ms", value_parser = humantime::parse_duration)]
    control_batch: Duration,
    /// Another build of the server, to be measured in place of the control: two versions side by side
    #[arg(long, value_name = "PATH", conflicts_with = "control_batch")]
    against: Option<PathBuf>,
    /// Further keys of the server's configuration
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Measure the server a second time with this key, too, as `variant`; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    variant: Vec<String>,
    /// Measure a broadcast in place of heartbeats: all connections subscribe, and what does a delivery cost?
    #[arg(long, conflicts_with_all = ["windows", "mute", "storm"])]
    broadcast: bool,
    /// Measure what connections at rest cost: memory, pings, deliveries, commands and a storm
    #[arg(long, conflicts_with_all = ["broadcast", "mute", "storm"])]
    rest: bool,
    /// Measure only these parts of --rest
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',', requires = "rest")]
    parts: Vec<Part>,
    /// How many messages the fan-out of --rest has [default: 1000]
    #[arg(long, value_name = "N", requires = "rest", value_parser = clap::value_parser!(u32).range(1..))]
    fanout: Option<u32>,
    /// How many messages the broadcast has [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    messages: Option<u32>,
    /// How many of them to publish a second
    #[arg(long, value_name = "R", default_value = "2",
          value_parser = clap::value_parser!(u32).range(1..))]
    publish_rate: u32,
    /// Measure these alone
    #[arg(long, value_enum, value_name = "SERVER", value_delimiter = ',')]
    only: Vec<Kind>,
    /// Also run `loadgen mute`: is a dead peer noticed on time, and never early?
    #[arg(long)]
    mute: bool,
    /// Also run `loadgen storm`: does everyone come back?
    #[arg(long)]
    storm: bool,
    /// Write everything to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// A try: 1,000 connections, one run, an interval of 2 s, one window. Figures of it mean little
    #[arg(long)]
    quick: bool,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) connections: u32,
    pub(crate) runs: u32,
    pub(crate) interval: Duration,
    pub(crate) windows: u32,
    pub(crate) rate: u32,
    pub(crate) control_batch: Duration,
    /// Another build of the server in place of the control.
    pub(crate) against: Option<PathBuf>,
    pub(crate) set: Vec<String>,
    /// Beyond `set`, for the variant.
    pub(crate) variant: Vec<String>,
    /// How long to watch each server while it is empty.
    pub(crate) idle: Duration,
    /// In place of heartbeats.
    pub(crate) broadcast: bool,
    /// In place of heartbeats.
    pub(crate) rest: bool,
    pub(crate) parts: Vec<Part>,
    /// How many messages have passed before memory is looked at again.
    pub(crate) fanout: u32,
    /// How long clients that speak are watched.
    pub(crate) speaking: Duration,
    pub(crate) messages: u32,
    pub(crate) publish_rate: u32,
    /// How long the data of a message is.
    pub(crate) data_bytes: usize,
    /// The servers, in the order of the first run.
    pub(crate) servers: Vec<Kind>,
    pub(crate) mute: bool,
    pub(crate) storm: bool,
    /// How many connections the two scenarios of loadgen have.
    pub(crate) mute_connections: u32,
    pub(crate) storm_connections: u32,
    pub(crate) json: Option<PathBuf>,
}

impl Args {
    pub(crate) fn plan(self) -> Plan {
        let quick = self.quick;
        let seconds = |full, quickly| Duration::from_secs(if quick { quickly } else { full });
        let count = |full, quickly| if quick { quickly } else { full };
        let servers = match (self.only.is_empty(), self.variant.is_empty(), self.rest) {
            (false, ..) => self.only,
            (_, true, false) => vec![Kind::Encke, Kind::Control],
            (_, false, false) => vec![Kind::Encke, Kind::Variant, Kind::Control],
            (_, true, true) => vec![Kind::Encke, Kind::Epoll, Kind::Control],
            (_, false, true) => vec![Kind::Encke, Kind::Variant, Kind::Epoll, Kind::Control],
        };
        let parts = if self.parts.is_empty() { Part::value_variants().to_vec() } else { self.parts };
        let (connections, interval) = if self.broadcast {
            (count(CROWD, 1_000), WITHOUT_PINGS)
        } else {
            (count(19_000, 1_000), seconds(10, 2))
        };
        Plan {
            connections: self.connections.unwrap_or(connections),
            runs: self.runs.unwrap_or(count(5, 1)),
            interval: self.interval.unwrap_or(interval),
            windows: self.windows.unwrap_or(count(2, 1)),
            rate: self.rate,
            control_batch: self.control_batch,
            against: self.against,
            set: self.set,
            variant: self.variant,
            idle: if self.broadcast { seconds(10, 1) } else { seconds(5, 1) },
            broadcast: self.broadcast,
            rest: self.rest,
            parts,
            fanout: self.fanout.unwrap_or(count(1_000, 50)),
            speaking: seconds(10, 2),
            messages: self.messages.unwrap_or(count(100, 10)),
            publish_rate: self.publish_rate,
            data_bytes: 100,
            servers,
            mute: self.mute,
            storm: self.storm,
            mute_connections: count(1_000, 200),
            storm_connections: count(10_000, 1_000),
            json: self.json,
        }
    }
}

impl Plan {
    /// What an encke is told beyond its defaults.
    pub(crate) fn settings(&self, kind: Kind) -> Vec<String> {
        let variant: &[String] = if kind == Kind::Variant { &self.variant } else { &[] };
        [self.set.as_slice(), variant].concat()
    }

    /// The same, with no more clients than one processor can carry deliveries to.
    pub(crate) fn of_crowd(&self) -> Self {
        Self { connections: self.connections.min(CROWD), ..self.clone() }
    }

    /// The same, with an interval so long that no ping falls into what is measured.
    pub(crate) fn without_pings(self) -> Self {
        Self { interval: WITHOUT_PINGS, ..self }
    }
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
    fn what_is_said_wins_over_quick() {
        let plan = |words: &[&str]| Args::try_parse_from(words).expect("good arguments").plan();
        assert_eq!(plan(&["bench"]).connections, 19_000);
        assert_eq!(plan(&["bench", "--quick"]).connections, 1_000);
        assert_eq!(plan(&["bench", "--quick", "--connections", "7"]).connections, 7);
    }
}
