//! Everything that was sampled at one instant, whole: several processes' values can be added up exactly.

use indexmap::IndexMap;

use super::sum::{Highest, Total, summed};
use super::{Distribution, Kind, Sample};

summed! {
    /// By name, in the order in which they are recorded.
    #[derive(Default)]
    pub(crate) struct Values {
        /// When the sample ended, in seconds since the start.
        pub(crate) t: Highest,
        pub(crate) gauges: IndexMap<String, Option<Total>>,
        /// Gauges of which the worst of all processes counts.
        pub(crate) worst: IndexMap<String, Option<Highest>>,
        pub(crate) counts: IndexMap<String, u64>,
        pub(crate) times: IndexMap<String, Distribution>,
    }
}

impl Values {
    /// With percentiles in place of distributions.
    #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
    pub(crate) fn to_sample(&self) -> Sample {
        let gauges = self.gauges.iter().map(|(name, value)| (name, value.map(|it| it.0)));
        let worst = self.worst.iter().map(|(name, value)| (name, value.map(|it| it.0)));
        let gauges = gauges.chain(worst).map(|(name, value)| (Kind::Gauge, name.clone(), value));
        let counts = self.counts.iter().map(|(name, count)| (Kind::Count, name.clone(), Some(*count as f64)));
        let mut sample = Sample { t: self.t.0, values: gauges.chain(counts).collect() };
        self.times.iter().for_each(|(name, times)| sample.add_times(name, times));
        sample
    }

    /// What a process still has, although it has not sampled again.
    pub(crate) fn gauges_only(&self) -> Self {
        Self { gauges: self.gauges.clone(), worst: self.worst.clone(), ..Self::default() }
    }
}
