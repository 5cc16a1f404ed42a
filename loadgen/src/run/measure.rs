//! A run from the command line to its document.

use super::drive;
use crate::args;
use crate::progress::Log;
use crate::result::{Document, Group};
use crate::scenario::{NotMeasured, Prepared, prepare};
use crate::workers;

/// Runs a scenario with its options, and returns the document of the run.
pub(crate) async fn measure(scenario: &args::Scenario, log: &Log) -> Result<Document, NotMeasured> {
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
