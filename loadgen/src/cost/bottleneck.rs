//! Whether loadgen itself was the bottleneck, not the server.

use serde::Serialize;

use crate::result::Sample;

/// It has one thread.
const ALL_OF_A_CORE: f64 = 0.9;
/// The lag of its own tasks adds to everything that it measures.
const MUCH_LAG_MS: f64 = 50.0;

/// Counts the seconds in which it was.
#[derive(Debug, Default)]
pub(crate) struct Bottleneck {
    seconds: u64,
    saturated: u64,
    lagging: u64,
    longest_lag_ms: f64,
}

/// One second of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Second {
    /// Of the busiest process, if there are several.
    pub(crate) self_cores: Option<f64>,
    pub(crate) lag_ms: Option<f64>,
    /// If they are known.
    pub(crate) server_cores: Option<f64>,
}

impl Second {
    /// The figures of one sample.
    pub(crate) fn of(sample: &Sample) -> Self {
        Self {
            self_cores: sample.get("loadgen.cores"),
            lag_ms: sample.get("loadgen.lag_ms"),
            server_cores: sample.get("server.cores"),
        }
    }
}

impl Bottleneck {
    /// True if this is the first second in which it was.
    pub(crate) fn look(&mut self, second: Second) -> bool {
        let Second { self_cores, lag_ms, server_cores } = second;
        self.seconds += 1;
        let self_cores = self_cores.unwrap_or(0.0);
        let is_saturated =
            self_cores >= ALL_OF_A_CORE && server_cores.is_none_or(|server| server < self_cores);
        self.saturated += u64::from(is_saturated);
        let lag_ms = lag_ms.unwrap_or(0.0);
        if lag_ms >= MUCH_LAG_MS {
            self.lagging += 1;
            self.longest_lag_ms = self.longest_lag_ms.max(lag_ms);
        }
        is_saturated && self.saturated == 1
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        let Self { seconds, saturated, lagging, longest_lag_ms } = self;
        let saturated = (*saturated > 0).then(|| {
            format!(
                "loadgen itself was the bottleneck in {saturated} of {seconds} s: it used up its core while the server \
                 did not; spread the load with --processes"
            )
        });
        let lagging = (*lagging > 0).then(|| {
            format!(
                "loadgen's own tasks ran up to {longest_lag_ms:.0} ms late, in {lagging} of {seconds} s: latencies may be \
                 its own by as much"
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

/// The end of the `loadgen` part of the result.
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
    fn it_is_the_bottleneck_when_its_core_is_used_up_and_the_servers_are_not() {
        for (itself, server, is_bottleneck) in [
            (Some(0.95), Some(0.4), true),
            (Some(0.95), None, true),
            (Some(0.95), Some(1.2), false),
            (Some(0.5), Some(0.1), false),
            (None, Some(0.1), false),
        ] {
            let mut bottleneck = Bottleneck::default();
            let second = Second { self_cores: itself, server_cores: server, lag_ms: Some(1.0) };
            assert_eq!(bottleneck.look(second), is_bottleneck, "{itself:?} {server:?}");
            assert_eq!(bottleneck.warnings().len(), usize::from(is_bottleneck));
        }
    }

    #[test]
    fn lag_counts_too_and_everything_is_told_once() {
        let mut bottleneck = Bottleneck::default();
        let quiet = Second { self_cores: Some(0.1), lag_ms: Some(49.0), server_cores: None };
        let late = Second { lag_ms: Some(80.0), ..quiet };
        let both = Second { self_cores: Some(1.0), ..late };
        assert_eq!(
            [quiet, late, both, both].map(|second| bottleneck.look(second)),
            [false, false, true, false]
        );
        let warnings = bottleneck.warnings();
        assert!(warnings[0].contains("bottleneck in 2 of 4 s"), "{warnings:?}");
        assert!(warnings[1].contains("up to 80 ms late, in 3 of 4 s"), "{warnings:?}");
        assert_eq!(bottleneck.outcome().saturated_seconds, 2);
        assert_eq!(bottleneck.outcome().lagging_seconds, 3);
    }
}
