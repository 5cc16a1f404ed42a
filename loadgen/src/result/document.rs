//! The result document of one run: settings and numbers, then histograms and series.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::distribution::Distribution;
use super::group::{Field, Group, convert};
use super::series::Series;
use super::{PathError, seconds};

/// Version of the document's format.
const FORMAT: u64 = 1;
/// First field after the settings.
const STARTED_AT: &str = "started_at";
const PHASES: &str = "phases";
const ASSERTIONS: &str = "assertions";
const HISTOGRAMS: &str = "histograms";
const SERIES: &str = "series";
/// Maximum size of a result file. A larger file is not a result.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Finished,
    /// Interrupted by a signal from the user.
    Interrupted,
    /// Ended early because this assertion could no longer hold.
    Aborted(String),
}

/// Phase of a run. Times are in seconds since the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunPhase {
    pub(crate) name: String,
    #[serde(rename = "start_seconds")]
    pub(crate) start: f64,
    #[serde(rename = "end_seconds")]
    pub(crate) end: f64,
    duration_seconds: f64,
}

/// When a run started, how long it took, how it ended, and its phases.
#[derive(Debug)]
pub(crate) struct RunInfo {
    pub(crate) started_at: SystemTime,
    pub(crate) elapsed: Duration,
    pub(crate) ending: Ending,
    pub(crate) phases: Vec<RunPhase>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Document(Group);

impl Document {
    pub(crate) fn new(settings: Group, run: RunInfo, numbers: Group, series: &Series) -> Self {
        let aborted_by = match &run.ending {
            Ending::Aborted(assertion) => Some(assertion.as_str()),
            Ending::Finished | Ending::Interrupted => None,
        };
        let started_at = humantime::format_rfc3339_seconds(run.started_at).to_string();
        let mut histograms = Group::default();
        let numbers = extract_histograms(numbers, "", &mut histograms);
        let document = Group::default()
            .with("format", FORMAT)
            .and(settings)
            .with(STARTED_AT, started_at.as_str())
            .with("interrupted", run.ending == Ending::Interrupted)
            .with("aborted_by", aborted_by)
            .with("elapsed_seconds", seconds(run.elapsed))
            .with(PHASES, run.phases.iter().map(Group::of).collect::<Vec<_>>())
            .and(numbers)
            .with(HISTOGRAMS, histograms)
            .with(SERIES, Group::of(series));
        Self(document)
    }

    /// Creates a document that has only these numbers.
    #[cfg(test)]
    pub(crate) fn of_numbers(numbers: Group) -> Self {
        Self(numbers)
    }

    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let cannot = |why: &dyn std::fmt::Display| format!("cannot read {}: {why}", path.display());
        let size = fs::metadata(path).map_err(|error| cannot(&error))?.len();
        if size > MAX_FILE_BYTES {
            return Err(cannot(&"the file is too large for a result"));
        }
        let text = fs::read_to_string(path).map_err(|error| cannot(&error))?;
        let group: Group = serde_json::from_str(&text).map_err(|error| cannot(&error))?;
        if group.get("format") != Some(&FORMAT.into()) {
            return Err(cannot(&"it is not a loadgen result (\"format\" is not 1)"));
        }
        Ok(Self(group))
    }

    pub(crate) fn number(&self, path: &str) -> Result<f64, PathError> {
        self.0.number(path)
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Field::as_text).unwrap_or_default()
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.0.get(name) == Some(&Field::Flag(true))
    }

    pub(crate) fn to_json(&self) -> String {
        self.0.to_json()
    }

    pub(crate) fn as_group(&self) -> &Group {
        &self.0
    }

    pub(crate) fn settings(&self) -> impl Iterator<Item = (&str, &Field)> {
        self.0.iter().skip_while(|(name, _)| *name == "format").take_while(|(name, _)| *name != STARTED_AT)
    }

    /// Returns the numbers, without phases, histograms and series.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (&str, &Field)> {
        let all = self.0.iter().skip_while(|(name, _)| *name != STARTED_AT);
        all.filter(|(name, _)| ![PHASES, ASSERTIONS, HISTOGRAMS, SERIES].contains(name))
    }

    /// Adds the verdicts on the assertions, before histograms and series.
    #[must_use]
    pub(crate) fn with_assertions(self, verdicts: Vec<Group>) -> Self {
        let (behind, mut fields): (Vec<_>, Vec<_>) =
            self.0.into_iter().partition(|(name, _)| [HISTOGRAMS, SERIES].contains(&name.as_str()));
        fields.push((ASSERTIONS.to_owned(), verdicts.into()));
        Self(fields.into_iter().chain(behind).collect())
    }

    pub(crate) fn assertions(&self) -> Vec<&Group> {
        let list = self.0.get(ASSERTIONS).and_then(Field::as_list).unwrap_or_default();
        list.iter().filter_map(Field::as_group).collect()
    }

    pub(crate) fn phases(&self) -> Vec<RunPhase> {
        let list = self.0.get(PHASES).and_then(Field::as_list).unwrap_or_default();
        list.iter().filter_map(convert).collect()
    }

    /// Returns the histograms that can be read. Their names are the paths of their percentiles.
    pub(crate) fn histograms(&self) -> Vec<(&str, Distribution)> {
        let histograms = self.0.get(HISTOGRAMS).and_then(Field::as_group).into_iter().flat_map(Group::iter);
        let whole = |field: &Field| match field {
            Field::Distribution(distribution) => Some((**distribution).clone()),
            _ => None,
        };
        histograms.filter_map(|(name, field)| Some((name, whole(field)?))).collect()
    }

    pub(crate) fn series(&self) -> Series {
        self.0.get(SERIES).and_then(convert).unwrap_or_default()
    }
}

/// Replaces distributions with their percentiles, and moves the distributions to `histograms`.
fn extract_histograms(numbers: Group, prefix: &str, histograms: &mut Group) -> Group {
    let extract = |(name, field)| {
        let path = format!("{prefix}{name}");
        let field = match field {
            Field::Group(group) => extract_histograms(group, &format!("{path}."), histograms).into(),
            Field::Distribution(distribution) => {
                let percentiles = distribution.percentiles();
                histograms.push(path, Field::Distribution(distribution));
                percentiles.into()
            }
            other => other,
        };
        (name, field)
    };
    numbers.into_iter().map(extract).collect()
}

impl RunPhase {
    pub(crate) fn new(name: String, start: f64, end: f64) -> Self {
        Self { name, start, end, duration_seconds: ((end - start) * 1e6).round() / 1e6 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Sample;

    fn document() -> Document {
        let mut times = hdrhistogram::Histogram::<u64>::new(3).expect("three digits are valid");
        times.saturating_record(2000);
        let mut series = Series::default();
        series.push(&Sample { t: 1.0, values: Vec::new() });
        let phases = vec![RunPhase::new("hold".to_owned(), 0.0, 1.5)];
        let ending = Ending::Aborted("errors==0".to_owned());
        let run =
            RunInfo { started_at: SystemTime::UNIX_EPOCH, elapsed: Duration::from_secs(2), ending, phases };
        let numbers = Group::default()
            .with("errors", 1)
            .with("inner", Group::default().with("connect_ms", Distribution::from(times)));
        Document::new(Group::default().with("scenario", "hold"), run, numbers, &series)
    }

    #[test]
    fn a_document_is_read_back_completely() {
        let written = document();
        let file = tempfile::NamedTempFile::new().expect("a temporary file can be written");
        fs::write(file.path(), written.to_json()).expect("a temporary file can be written");
        let document = Document::read(file.path()).expect("it was just serialised");
        assert_eq!(document.text("scenario"), "hold");
        assert_eq!(document.text("started_at"), "1970-01-01T00:00:00Z");
        assert_eq!(document.text("aborted_by"), "errors==0");
        assert_eq!(document.number("phases[0].duration_seconds"), Ok(1.5));
        assert_eq!(document.number("inner.connect_ms.p99.99"), Ok(2.0));
        assert_eq!(document.settings().map(|(name, _)| name).collect::<Vec<_>>(), ["scenario"]);
        let numbers: Vec<_> = document.numbers().map(|(name, _)| name).collect();
        assert_eq!(
            numbers,
            ["started_at", "interrupted", "aborted_by", "elapsed_seconds", "errors", "inner"]
        );
        assert_eq!(document.phases()[0].name, "hold");
        assert_eq!(document.series().t(), [1.0]);
        let histograms = document.histograms();
        assert_eq!((histograms[0].0, histograms[0].1.micros().len()), ("inner.connect_ms", 1));
    }

    #[test]
    fn other_files_are_rejected() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file can be written");
        for (text, why) in [("{}", "not a loadgen result"), ("[1]", "invalid type"), ("x", "expected value")]
        {
            fs::write(file.path(), text).expect("a temporary file can be written");
            let error = Document::read(file.path()).expect_err("the file is not a result");
            assert!(error.contains(why), "{error}");
        }
        assert!(Document::read(Path::new("/nowhere/result.json")).is_err());
    }
}
