//! The command line, as typed and as meant.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::process::Kind;

/// Measures what a session costs: the server against a control that has no sessions.
///
/// Both are started, pinned to one processor, loaded from another, and ended, turn by turn. The exit code does not
/// judge the figures.
#[derive(Debug, Parser)]
#[command(name = "bench")]
pub(crate) struct Args {
    /// How many connections to hold [default: 19000; with --broadcast 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    connections: Option<u32>,
    /// How often to measure each of the two [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// The ping interval of both [default: 10s; with --broadcast 10m, so that no ping falls into it]
    #[arg(long, value_name = "D", value_parser = humantime::parse_duration)]
    interval: Option<Duration>,
    /// How many intervals to measure the heartbeat over [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    windows: Option<u32>,
    /// How many connections to open a second
    #[arg(long, value_name = "R", default_value = "2000", value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// How often the control's pinging thread wakes up; the default is the slack that the server's pings have
    #[arg(long, value_name = "D", default_value = "100ms", value_parser = humantime::parse_duration)]
    control_batch: Duration,
    /// Another build of the server, to be measured in place of the control: two versions side by side
    #[arg(long, value_name = "PATH", conflicts_with = "control_batch")]
    against: Option<PathBuf>,
    /// Further keys of the server's configuration
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Measure a broadcast in place of heartbeats: all connections subscribe, and what does a delivery cost?
    #[arg(long, conflicts_with_all = ["windows", "mute", "storm"])]
    broadcast: bool,
    /// How many messages the broadcast has [default: 100]
    #[arg(long, value_name = "N", requires = "broadcast", value_parser = clap::value_parser!(u32).range(1..))]
    messages: Option<u32>,
    /// How many of them to publish a second
    #[arg(long, value_name = "R", requires = "broadcast", default_value = "2",
          value_parser = clap::value_parser!(u32).range(1..))]
    publish_rate: u32,
    /// Measure one of the two alone, which gives no ratios
    #[arg(long, value_enum)]
    only: Option<Kind>,
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
#[derive(Debug)]
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
    /// How long to watch each server while it is empty.
    pub(crate) idle: Duration,
    /// In place of heartbeats.
    pub(crate) broadcast: bool,
    pub(crate) messages: u32,
    pub(crate) publish_rate: u32,
    /// How long the data of a message is.
    pub(crate) data_bytes: usize,
    pub(crate) only: Option<Kind>,
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
        let (connections, interval) = if self.broadcast {
            (count(10_000, 1_000), Duration::from_secs(600))
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
            idle: if self.broadcast { seconds(10, 1) } else { seconds(5, 1) },
            broadcast: self.broadcast,
            messages: self.messages.unwrap_or(count(100, 10)),
            publish_rate: self.publish_rate,
            data_bytes: 100,
            only: self.only,
            mute: self.mute,
            storm: self.storm,
            mute_connections: count(1_000, 200),
            storm_connections: count(10_000, 1_000),
            json: self.json,
        }
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
