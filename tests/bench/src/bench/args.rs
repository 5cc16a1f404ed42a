//! Command line options.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::part::Part;
use crate::server::ServerKind;

/// Maximum number of clients in the parts with messages: one processor can deliver to that many.
const MAX_SUBSCRIBERS: u32 = 10_000;

/// Measures what a session costs: the server against controls that have no sessions.
///
/// The servers are started one after the other, in alternating order. Each is pinned to one processor, and
/// loaded from another. The exit code does not depend on the results.
#[derive(Debug, Parser)]
#[command(name = "bench")]
pub(crate) struct BenchArgs {
    /// Parts to run [default: everything]
    #[arg(value_enum, value_name = "PART")]
    parts: Vec<Part>,
    /// Number of connections; at most 10000 are used in the parts with messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
          default_value = "19000", default_value_if("quick", "true", "1000"))]
    pub(crate) connections: u32,
    /// Number of measurements of each server
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
          default_value = "5", default_value_if("quick", "true", "1"))]
    pub(crate) runs: u32,
    /// Ping interval of all servers, in the parts with pings
    #[arg(long, value_name = "D", value_parser = humantime::parse_duration,
          default_value = "10s", default_value_if("quick", "true", "2s"))]
    pub(crate) interval: Duration,
    /// Number of messages whose deliveries are measured; in the fan-out there are ten times as many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
          default_value = "100", default_value_if("quick", "true", "10"))]
    pub(crate) messages: u32,
    /// Another build of the server to measure instead of the hyper control, to compare two versions
    #[arg(long, value_name = "PATH")]
    pub(crate) against: Option<PathBuf>,
    /// Additional settings of the server
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Measure the server a second time, as `variant`, with this additional setting; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) variant: Vec<String>,
    /// Measure only these servers
    #[arg(long, value_enum, value_name = "SERVER", value_delimiter = ',')]
    only: Vec<ServerKind>,
    /// Write all results to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Trial run: 1,000 connections, one run, an interval of 2 s, few messages. Its results mean little
    #[arg(long)]
    pub(crate) quick: bool,
}

impl BenchArgs {
    pub(crate) fn parts(&self) -> &[Part] {
        if self.parts.is_empty() { Part::value_variants() } else { &self.parts }
    }

    /// Returns the servers to measure, in the order of the first run.
    pub(crate) fn servers(&self) -> Vec<ServerKind> {
        let all = ServerKind::value_variants().iter().copied();
        let is_default = |kind: &ServerKind| *kind != ServerKind::Variant || !self.variant.is_empty();
        if self.only.is_empty() { all.filter(is_default).collect() } else { self.only.clone() }
    }

    /// Returns the number of clients in parts with messages.
    pub(crate) fn subscribers(&self) -> u32 {
        self.connections.min(MAX_SUBSCRIBERS)
    }

    /// Returns how long a cost that does not depend on the interval is measured.
    pub(crate) fn period(&self) -> Duration {
        Duration::from_secs(if self.quick { 2 } else { 10 })
    }

    /// Returns the settings of an Encke server that differ from the defaults.
    pub(crate) fn settings(&self, kind: ServerKind) -> impl Iterator<Item = &String> {
        let variant: &[String] = if kind == ServerKind::Variant { &self.variant } else { &[] };
        self.set.iter().chain(variant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explicit_options_override_quick() {
        let connections = |words: &[&str]| BenchArgs::parse_from(words).connections;
        assert_eq!(connections(&["bench"]), 19_000);
        assert_eq!(connections(&["bench", "--quick"]), 1_000);
        assert_eq!(connections(&["bench", "idle", "--quick", "--connections", "7"]), 7);
    }
}
