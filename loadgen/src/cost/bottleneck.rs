//! Detects that loadgen itself, not the server, was the bottleneck.

use serde::Serialize;

use crate::result::Sample;

/// CPU usage, in cores, above which loadgen counts as saturated: it has only one thread.
const SATURATED_CORES: f64 = 0.9;
/// Lag above which a second counts as lagging. The lag of loadgen's own tasks adds to everything it measures.
const HIGH_LAG_MS: f64 = 50.0;

/// Counts the seconds in which loadgen was saturated or lagging.
#[derive(Debug, Default)]
pub(crate) struct Bottleneck {
    seconds: u64,
    saturated: u64,
    lagging: u64,
    longest_lag_ms: f64,
}

/// CPU usage of loadgen and the server, and loadgen's lag, during one second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SecondUsage {
    /// CPU usage of loadgen, or of its busiest process if there are several.
    pub(crate) self_cores: Option<f64>,
    pub(crate) lag_ms: Option<f64>,
    /// CPU usage of the server. `None` if the server is not sampled.
    pub(crate) server_cores: Option<f64>,
}

impl SecondUsage {
    /// Extracts the values from a sample.
    pub(crate) fn of(sample: &Sample) -> Self {
        Self {
            self_cores: sample.get("loadgen.cores"),
            lag_ms: sample.get("loadgen.lag_ms"),
            server_cores: sample.get("server.cores"),
        }
    }
}

impl Bottleneck {
    /// Adds a second. Returns whether it is the first saturated one.
    pub(crate) fn observe(&mut self, second: SecondUsage) -> bool {
        let SecondUsage { self_cores, lag_ms, server_cores } = second;
        self.seconds += 1;
        let self_cores = self_cores.unwrap_or(0.0);
        let is_saturated =
            self_cores >= SATURATED_CORES && server_cores.is_none_or(|server| server < self_cores);
        self.saturated += u64::from(is_saturated);
        let lag_ms = lag_ms.unwrap_or(0.0);
        if lag_ms >= HIGH_LAG_MS {
            self.lagging += 1;
            self.longest_lag_ms = self.longest_lag_ms.max(lag_ms);
        }
        is_saturated && self.saturated == 1
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        let Self { seconds, saturated, lagging, longest_lag_ms } = self;
        let saturated = (*saturated > 0).then(|| {
            format!(
                "loadgen itself was the bottleneck in {saturated} of {seconds} s: it used a whole core while the \
                 server did not; spread the load with --processes"
            )
        });
        let lagging = (*lagging > 0).then(|| {
            format!(
                "loadgen's own tasks ran up to {longest_lag_ms:.0} ms late, in {lagging} of {seconds} s: measured \
                 latencies may be too high by as much"
            )
        });
        saturated.into_iter().chain(lagging).collect()
    }

    pub(crate) fn outcome(&self) -> BottleneckOutcome {
        BottleneckOutcome {
            saturated_seconds: self.saturated,
            lagging_seconds: self.lagging,
            warnings: Some(self.warnings()).filter(|warnings| !warnings.is_empty()),
        }
    }
}

/// Last fields of the `loadgen` part of the result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct BottleneckOutcome {
    saturated_seconds: u64,
    lagging_seconds: u64,
    warnings: Option<Vec<String>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saturated_only_if_the_server_uses_less() {
        for (itself, server, is_bottleneck) in [
            (Some(0.95), Some(0.4), true),
            (Some(0.95), None, true),
            (Some(0.95), Some(1.2), false),
            (Some(0.5), Some(0.1), false),
            (None, Some(0.1), false),
        ] {
            let mut bottleneck = Bottleneck::default();
            let second = SecondUsage { self_cores: itself, server_cores: server, lag_ms: Some(1.0) };
            assert_eq!(bottleneck.observe(second), is_bottleneck, "{itself:?} {server:?}");
            assert_eq!(bottleneck.warnings().len(), usize::from(is_bottleneck));
        }
    }

    #[test]
    fn lag_counts_and_saturation_is_reported_once() {
        let mut bottleneck = Bottleneck::default();
        let quiet = SecondUsage { self_cores: Some(0.1), lag_ms: Some(49.0), server_cores: None };
        let late = SecondUsage { lag_ms: Some(80.0), ..quiet };
        let both = SecondUsage { self_cores: Some(1.0), ..late };
        assert_eq!(
            [quiet, late, both, both].map(|second| bottleneck.observe(second)),
            [false, false, true, false]
        );
        let warnings = bottleneck.warnings();
        assert!(warnings[0].contains("bottleneck in 2 of 4 s"), "{warnings:?}");
        assert!(warnings[1].contains("up to 80 ms late, in 3 of 4 s"), "{warnings:?}");
        assert_eq!(bottleneck.outcome().saturated_seconds, 2);
        assert_eq!(bottleneck.outcome().lagging_seconds, 3);
    }
}
