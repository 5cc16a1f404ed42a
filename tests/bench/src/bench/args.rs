//! Command line options, and the plan derived from them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::parking::ParkingPart;
use crate::process::ServerKind;

/// Maximum number of subscribers in a broadcast.
const MAX_BROADCAST_CLIENTS: u32 = 10_000;
/// Ping interval at which no ping falls into a measurement: the first one is sent after half of it.
const NO_PING_INTERVAL: Duration = Duration::from_secs(600);

/// Measures what a session costs: the server against a control that has no sessions.
///
/// The servers are started one after the other, in alternating order. Each is pinned to one processor, and
/// loaded from another. The exit code does not depend on the results.
#[derive(Debug, Parser)]
#[command(name = "bench")]
pub(crate) struct BenchArgs {
    /// Number of connections to hold [default: 19000; 10000 with --broadcast, and in some parts of --parking]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    connections: Option<u32>,
    /// Number of measurements of each server [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Ping interval of all servers [default: 10s; with --broadcast 10m, so that no ping falls into the
    /// measurement]
    #[arg(long, value_name = "D", value_parser = humantime::parse_duration)]
    interval: Option<Duration>,
    /// Number of ping intervals over which the heartbeat is measured [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    windows: Option<u32>,
    /// Number of connections to open per second
    #[arg(long, value_name = "R", default_value = "2000", value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// How often the controls send the pings that are due; the default equals the ping slack of the server
    #[arg(long, value_name = "D", default_value = "100ms", value_parser = humantime::parse_duration)]
    control_batch: Duration,
    /// Another build of the server to measure instead of the control, to compare two versions
    #[arg(long, value_name = "PATH", conflicts_with = "control_batch")]
    against: Option<PathBuf>,
    /// Additional settings of the server
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Measure the server a second time, as `variant`, with this additional setting; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    variant: Vec<String>,
    /// Measure the cost of a delivery instead of heartbeats: all connections subscribe to one channel
    #[arg(long, conflicts_with_all = ["windows", "mute", "storm"])]
    broadcast: bool,
    /// Measure what parked connections cost: memory, pings, deliveries, commands and a reconnect storm
    #[arg(long, conflicts_with_all = ["broadcast", "mute", "storm"])]
    parking: bool,
    /// Measure only these parts of --parking
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',', requires = "parking")]
    parts: Vec<ParkingPart>,
    /// Number of messages in the fan-out of --parking [default: 1000]
    #[arg(long, value_name = "N", requires = "parking", value_parser = clap::value_parser!(u32).range(1..))]
    fanout: Option<u32>,
    /// Number of messages in the broadcast [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    messages: Option<u32>,
    /// Number of broadcast messages to publish per second
    #[arg(long, value_name = "R", default_value = "2",
          value_parser = clap::value_parser!(u32).range(1..))]
    publish_rate: u32,
    /// Measure only these servers
    #[arg(long, value_enum, value_name = "SERVER", value_delimiter = ',')]
    only: Vec<ServerKind>,
    /// Also run `loadgen mute`: are dead peers detected on time, and never early?
    #[arg(long)]
    mute: bool,
    /// Also run `loadgen storm`: do all clients reconnect?
    #[arg(long)]
    storm: bool,
    /// Write all results to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Trial run: 1,000 connections, one run, an interval of 2 s, one window. Its results mean little
    #[arg(long)]
    quick: bool,
}

/// Measurements to make, with all defaults resolved.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) connections: u32,
    pub(crate) runs: u32,
    pub(crate) interval: Duration,
    pub(crate) windows: u32,
    pub(crate) rate: u32,
    pub(crate) control_batch: Duration,
    /// Another build of the server, measured instead of the control.
    pub(crate) against: Option<PathBuf>,
    pub(crate) set: Vec<String>,
    /// Settings of the variant in addition to `set`.
    pub(crate) variant: Vec<String>,
    /// How long each server is measured while idle.
    pub(crate) idle: Duration,
    /// Whether to measure a broadcast instead of heartbeats.
    pub(crate) broadcast: bool,
    /// Whether to measure parked connections instead of heartbeats.
    pub(crate) parking: bool,
    pub(crate) parts: Vec<ParkingPart>,
    /// Number of messages published before memory is measured again.
    pub(crate) fanout: u32,
    /// How long the cost of commands is measured.
    pub(crate) command_load: Duration,
    pub(crate) messages: u32,
    pub(crate) publish_rate: u32,
    /// Length of a message's data, in bytes.
    pub(crate) data_bytes: usize,
    /// Servers to measure, in the order of the first run.
    pub(crate) servers: Vec<ServerKind>,
    pub(crate) mute: bool,
    pub(crate) storm: bool,
    /// Number of connections in `loadgen mute`; in `loadgen storm` below.
    pub(crate) mute_connections: u32,
    pub(crate) storm_connections: u32,
    pub(crate) json: Option<PathBuf>,
}

impl BenchArgs {
    pub(crate) fn plan(self) -> Plan {
        let quick = self.quick;
        let seconds = |full, quick_value| Duration::from_secs(if quick { quick_value } else { full });
        let count = |full, quick_value| if quick { quick_value } else { full };
        let servers = match (self.only.is_empty(), self.variant.is_empty(), self.parking) {
            (false, ..) => self.only,
            (_, true, false) => vec![ServerKind::Encke, ServerKind::Control],
            (_, false, false) => vec![ServerKind::Encke, ServerKind::Variant, ServerKind::Control],
            (_, true, true) => vec![ServerKind::Encke, ServerKind::Epoll, ServerKind::Control],
            (_, false, true) => {
                vec![ServerKind::Encke, ServerKind::Variant, ServerKind::Epoll, ServerKind::Control]
            }
        };
        let parts = if self.parts.is_empty() { ParkingPart::value_variants().to_vec() } else { self.parts };
        let (connections, interval) = if self.broadcast {
            (count(MAX_BROADCAST_CLIENTS, 1_000), NO_PING_INTERVAL)
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
            parking: self.parking,
            parts,
            fanout: self.fanout.unwrap_or(count(1_000, 50)),
            command_load: seconds(10, 2),
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
    /// Returns the settings of an Encke server that differ from the defaults.
    pub(crate) fn settings(&self, kind: ServerKind) -> Vec<String> {
        let variant: &[String] = if kind == ServerKind::Variant { &self.variant } else { &[] };
        [self.set.as_slice(), variant].concat()
    }

    /// Returns the same plan, limited to the number of clients that one processor can deliver to.
    pub(crate) fn with_broadcast_clients(&self) -> Self {
        Self { connections: self.connections.min(MAX_BROADCAST_CLIENTS), ..self.clone() }
    }

    /// Returns the same plan with an interval longer than the measurement, so that no ping is sent during it.
    pub(crate) fn without_pings(self) -> Self {
        Self { interval: NO_PING_INTERVAL, ..self }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn clap_accepts_the_definition() {
        BenchArgs::command().debug_assert();
    }

    #[test]
    fn explicit_options_override_quick() {
        let plan = |words: &[&str]| BenchArgs::try_parse_from(words).expect("valid arguments").plan();
        assert_eq!(plan(&["bench"]).connections, 19_000);
        assert_eq!(plan(&["bench", "--quick"]).connections, 1_000);
        assert_eq!(plan(&["bench", "--quick", "--connections", "7"]).connections, 7);
    }
}
