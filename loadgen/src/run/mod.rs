//! Runs a scenario: in this process, on several threads, or in several processes if their descriptors are
//! needed.

mod assertions;
mod local;
mod processes;
mod thread;

use std::time::{Duration, SystemTime};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub(crate) use self::assertions::meaningless_assertions;
pub(crate) use self::processes::run_part;
use crate::args::ScenarioOptions;
use crate::progress::ProgressLog;
use crate::result::{Document, FORMAT, Group, RunPhase, Series, Settings, extract_histograms, seconds};

/// Why there is no result.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum MeasureError {
    /// The options make no sense with this server.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Failed(String),
}

impl From<String> for MeasureError {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    /// Numbers by their paths.
    numbers: Group,
    phases: Vec<RunPhase>,
    series: Series,
    interrupted: bool,
    aborted_by: Option<String>,
    elapsed: Duration,
    server: Option<Group>,
    loadgen: Group,
}

pub(crate) async fn measure(options: &ScenarioOptions, log: &ProgressLog) -> Result<Document, MeasureError> {
    let started_at = SystemTime::now();
    let (metrics, measured) = match processes::needed(options)? {
        1 => local::run(options, log).await?,
        count => processes::run(count, options, log).await?,
    };
    let load = options.load();
    let Measured { phases, series, interrupted, aborted_by, elapsed, server, loadgen, .. } = measured;
    let mut histograms = IndexMap::new();
    let numbers = extract_histograms(metrics.result(), "", &mut histograms);
    let numbers = server.into_iter().fold(numbers, |numbers, server| numbers.with("server", server));
    Ok(Document {
        format: FORMAT,
        settings: Settings {
            scenario: options.name().to_owned(),
            target: load.server.target.name().to_owned(),
            url: load.server.url.uri.to_string(),
            connections: load.connections,
            rate: load.rate,
            duration_seconds: seconds(load.duration),
        },
        started_at: humantime::format_rfc3339_seconds(started_at).to_string(),
        interrupted,
        aborted_by,
        elapsed_seconds: seconds(elapsed),
        phases,
        numbers: numbers.with("loadgen", loadgen),
        assertions: Vec::new(),
        histograms,
        series,
    })
}
