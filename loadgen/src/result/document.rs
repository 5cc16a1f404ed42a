//! The result document of one run: settings and numbers, then histograms and series.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::assertion::Verdict;
use super::distribution::Distribution;
use super::group::{Field, Group, PathError};
use super::series::Series;

pub(crate) const FORMAT: u64 = 1;

/// Result of a run. Its JSON has the fields in this order.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Document {
    pub(crate) format: u64,
    #[serde(flatten)]
    pub(crate) settings: Settings,
    pub(crate) started_at: String,
    /// Whether a signal from the user ended the run.
    pub(crate) interrupted: bool,
    /// Assertion that ended the run early, because it could no longer hold.
    pub(crate) aborted_by: Option<String>,
    pub(crate) elapsed_seconds: f64,
    pub(crate) phases: Vec<RunPhase>,
    #[serde(flatten)]
    pub(crate) numbers: Group,
    pub(crate) assertions: Vec<Verdict>,
    /// Complete histograms, by the paths of their percentiles.
    pub(crate) histograms: IndexMap<String, Distribution>,
    pub(crate) series: Series,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Settings {
    pub(crate) scenario: String,
    pub(crate) target: String,
    pub(crate) url: String,
    pub(crate) connections: u32,
    pub(crate) rate: f64,
    pub(crate) duration_seconds: f64,
}

/// Phase of a run. Times are in seconds since the start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunPhase {
    pub(crate) name: String,
    pub(crate) start_seconds: f64,
    pub(crate) end_seconds: f64,
    pub(crate) duration_seconds: f64,
}

impl Document {
    /// Returns the number at a path in the JSON of this document.
    pub(crate) fn number(&self, path: &str) -> Result<f64, PathError> {
        match self.numbers.number(path) {
            Err(PathError::Unknown) => Group::of(self).number(path),
            found => found,
        }
    }
}

/// Replaces distributions with their percentiles, and moves the distributions to `histograms`. `prefix` is the
/// path of the numbers.
pub(crate) fn extract_histograms(
    numbers: Group,
    prefix: &str,
    histograms: &mut IndexMap<String, Distribution>,
) -> Group {
    let extract = |(name, field)| {
        let path = format!("{prefix}{name}");
        let field = match field {
            Field::Group(group) => Field::Group(extract_histograms(group, &format!("{path}."), histograms)),
            Field::Distribution(distribution) => {
                let percentiles = distribution.percentiles();
                histograms.insert(path, *distribution);
                Field::Group(percentiles)
            }
            other => other,
        };
        (name, field)
    };
    Group(numbers.0.into_iter().map(extract).collect())
}
