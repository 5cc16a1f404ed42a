//! Runs a scenario with its command-line options and builds the document.

use super::drive;
use crate::args;
use crate::progress::ProgressLog;
use crate::result::{Document, Group};
use crate::scenario::{MeasureError, Prepared, prepare};
use crate::workers;

/// Runs a scenario, in this process or in workers, and returns the document of the run.
pub(crate) async fn measure(
    scenario: &args::ScenarioOptions,
    log: &ProgressLog,
) -> Result<Document, MeasureError> {
    let Prepared { name, load, header, scenario } = prepare(scenario);
    let server = &load.server;
    let header = Group::default()
        .with("scenario", name)
        .with("target", server.target.name())
        .with("url", server.url.as_str())
        .and(header);
    let measured = match load.server.workers.processes {
        1 => drive(scenario, &load, log).await?,
        processes => workers::run(processes, &load, log).await?,
    };
    Ok(measured.into_document(header))
}
