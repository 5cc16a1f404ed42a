//! Everything sampled at the same time, with complete histograms, so that the values of several processes can
//! be added up exactly.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::sum::{Highest, Sum, Total, summed};
use super::{ColumnKind, Distribution, Sample};

summed! {
    /// Values by name, in the order in which they are recorded.
    #[derive(Default)]
    pub(crate) struct Values {
        /// End of the sample, in seconds since the start.
        pub(crate) t: Highest,
        pub(crate) gauges: IndexMap<String, Level>,
        pub(crate) counts: IndexMap<String, u64>,
        pub(crate) times: IndexMap<String, Distribution>,
    }
}

/// Value of a gauge; `None` if it could not be measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// The values of all processes are added up.
    Total(Option<Total>),
    /// The highest value of all processes is used.
    Highest(Option<Highest>),
}

impl Level {
    pub(crate) fn number(self) -> Option<f64> {
        match self {
            Self::Total(level) => level.map(|Total(number)| number),
            Self::Highest(level) => level.map(|Highest(number)| number),
        }
    }
}

impl Sum for Level {
    fn add(&mut self, other: Self) {
        match (self, other) {
            (Self::Total(sum), Self::Total(other)) => sum.add(other),
            (Self::Highest(sum), Self::Highest(other)) => sum.add(other),
            (Self::Total(_), Self::Highest(_)) | (Self::Highest(_), Self::Total(_)) => {
                panic!("gauges with the same name have the same kind");
            }
        }
    }
}

impl Values {
    /// Converts to a sample, with percentiles instead of distributions.
    #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
    pub(crate) fn to_sample(&self) -> Sample {
        let gauges =
            self.gauges.iter().map(|(name, level)| (ColumnKind::Gauge, name.clone(), level.number()));
        let counts =
            self.counts.iter().map(|(name, count)| (ColumnKind::Count, name.clone(), Some(*count as f64)));
        let mut sample = Sample { t: self.t.0, values: gauges.chain(counts).collect() };
        self.times.iter().for_each(|(name, times)| sample.add_times(name, times));
        sample
    }

    /// Moves the gauges into a new instance.
    pub(crate) fn take_gauges(&mut self) -> Self {
        Self { gauges: std::mem::take(&mut self.gauges), ..Self::default() }
    }

    /// Copies only the gauges, which stay valid until the process samples again.
    pub(crate) fn gauges_only(&self) -> Self {
        Self { gauges: self.gauges.clone(), ..Self::default() }
    }

    pub(crate) fn gauge(&self, name: &str) -> Option<f64> {
        self.gauges.get(name).and_then(|level| level.number())
    }
}
