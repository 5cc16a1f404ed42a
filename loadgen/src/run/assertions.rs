//! Checks assertions before a run: its result must have the numbers they refer to.

use crate::args::ScenarioOptions;
use crate::cost::Sampling;
use crate::record::Traffic;
use crate::result::{Assertion, PathError};

/// First parts of paths whose numbers are not known before the run.
const DYNAMIC: &str =
    "error_kinds. close_codes. frame_faults. loadgen. server. phases[ series. histograms. answers.";
const SETTINGS: [&str; 4] = ["connections", "rate", "duration_seconds", "elapsed_seconds"];

/// Returns a message for each assertion that does not refer to a number of this scenario's result.
pub(crate) fn meaningless_assertions(options: &ScenarioOptions) -> Vec<String> {
    let result = super::local::name_numbers(options, &Traffic::default()).result();
    let load = options.load();
    let fault = |assertion: &Assertion| {
        let path = assertion.path();
        let why = match (missing_option(path, &load.server.cost), result.number(path)) {
            (Some(why), _) => why.to_owned(),
            // Nothing is measured before the run.
            (None, Ok(_) | Err(PathError::Unmeasured)) => return None,
            (None, Err(PathError::Unknown))
                if SETTINGS.contains(&path) || DYNAMIC.split(' ').any(|known| path.starts_with(known)) =>
            {
                return None;
            }
            (None, Err(why)) => why.to_string(),
        };
        Some(format!("invalid assertion: {assertion} ({why})"))
    };
    load.server.output.assertions.iter().filter_map(fault).collect()
}

/// Returns a message about the missing option, if the path is below `server`.
fn missing_option(path: &str, sampling: &Sampling) -> Option<&'static str> {
    let path = path.strip_prefix("server.")?;
    match (path.starts_with("timers."), sampling.pid.is_some(), sampling.admin.is_some()) {
        (_, false, false) => Some("the server is sampled only with --pid or --admin"),
        (true, _, false) => Some("timers are sampled only with --admin"),
        (false, false, _) => Some("the server process is sampled only with --pid"),
        (true, _, true) | (false, true, _) => None,
    }
}
