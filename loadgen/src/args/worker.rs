//! `--processes N`: the part of the load that each process generates.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use super::load::{Load, ServerOptions};
use crate::cost;
use crate::report::OutputOptions;

#[derive(Clone, Debug, Args)]
pub(crate) struct WorkerOptions {
    /// Spread the connections over this many processes, so that each can use its own core; counts and
    /// histograms are added up
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) processes: u32,
    /// Internal: part of the load that this process generates, as INDEX/COUNT
    #[arg(long, hide = true)]
    pub(crate) worker: Option<WorkerId>,
}

/// Worker `index` of `count`. It opens every `count`-th connection, starting with number `index`, counted
/// from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkerId {
    index: u32,
    count: u32,
}

impl WorkerId {
    pub(crate) fn all(count: u32) -> Vec<Self> {
        (0..count).map(|index| Self { index, count }).collect()
    }

    /// Returns the part of the load that this worker generates. Connection i is due at the same time as
    /// without workers, and all workers end together.
    pub(crate) fn share(self, whole: &Load) -> Load {
        let Self { index, count } = self;
        let connections = (whole.connections.saturating_sub(index)).div_ceil(count);
        let due = |number: u32| f64::from(number) / whole.rate;
        let last_of_all = due(whole.connections.saturating_sub(1));
        let last_of_part = due(index + connections.saturating_sub(1) * count);
        let rest = Duration::from_secs_f64((last_of_all - last_of_part).max(0.0));
        Load {
            connections,
            rate: whole.rate / f64::from(count),
            first_due: Duration::from_secs_f64(due(index)),
            duration: whole.duration + rest,
            // The parent samples the server and writes the result.
            server: ServerOptions {
                cost: cost::Sampling::default(),
                output: OutputOptions::default(),
                ..whole.server.clone()
            },
        }
    }

    /// Returns the range of the source addresses, numbered from 0, that only this worker uses. `of` is the
    /// total number of addresses.
    pub(crate) fn addresses(self, of: u8) -> Range<u8> {
        let bound = |index: u32| u8::try_from(index * u32::from(of) / self.count).unwrap_or(of);
        bound(self.index)..bound(self.index + 1)
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for WorkerId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers =
            text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match numbers {
            Some((index, count)) if index < count && count <= 64 => Ok(Self { index, count }),
            _ => Err("must be INDEX/COUNT with at most 64 workers, like 0/4".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{LoadgenArgs, LoadgenCommand};

    fn load(connections: u32, rate: f64) -> Load {
        let words = format!(
            "loadgen hold ws://h/ws --connections {connections} --rate {rate} --duration 10s --pid 1"
        );
        match LoadgenArgs::try_parse_from(words.split(' ')).expect("the arguments are valid").command {
            LoadgenCommand::Run(scenario) => scenario.load(),
            _ => panic!("expected a scenario"),
        }
    }

    /// Returns the times at which the connections of a load are due, and the end of the load, in
    /// microseconds.
    fn schedule(load: &Load) -> (Vec<u128>, u128) {
        let due =
            |number| (load.first_due + Duration::from_secs_f64(f64::from(number) / load.rate)).as_micros();
        let all: Vec<_> = (0..load.connections).map(due).collect();
        let end = all[all.len() - 1] + load.duration.as_micros();
        (all, end)
    }

    #[test]
    fn the_parts_together_are_the_whole() {
        for (connections, rate, count) in [(10, 1000.0, 1), (10, 2.0, 3), (7, 0.5, 7), (19_000, 3000.0, 4)] {
            let whole = load(connections, rate);
            let (expected, expected_end) = schedule(&whole);
            let mut all = Vec::new();
            for worker in WorkerId::all(count) {
                let (due, end) = schedule(&worker.share(&whole));
                assert!(end.abs_diff(expected_end) <= 2, "{worker} ends at {end} instead of {expected_end}");
                all.extend(due);
            }
            all.sort_unstable();
            assert_eq!(all.len(), expected.len());
            assert!(
                all.iter().zip(&expected).all(|(one, other)| one.abs_diff(*other) <= 2),
                "{connections} in {count}"
            );
        }
    }

    #[test]
    fn only_the_parent_samples_the_server() {
        let whole = load(4, 1.0);
        assert!(whole.server.cost.pid.is_some());
        let worker: WorkerId = "1/2".parse().expect("the worker id is valid");
        assert!(worker.share(&whole).server.cost.pid.is_none());
        assert_eq!(worker.to_string().parse(), Ok(worker));
        for bad in ["", "1", "2/2", "0/0", "-1/2", "0/65", "a/b"] {
            assert!(bad.parse::<WorkerId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn each_part_has_its_own_addresses() {
        for count in [1, 2, 3, 64] {
            let ranges: Vec<_> = (0..count).map(|index| WorkerId { index, count }.addresses(250)).collect();
            assert!(ranges.iter().all(|range| !range.is_empty()), "{count}");
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start), "{count}");
            assert_eq!((ranges[0].start, ranges[ranges.len() - 1].end), (0, 250));
        }
    }
}
