//! The plan of a `mix`: phases, each with scenarios that run at once.
//!
//! A run's keys are the flags of its scenario, so they have the same checks and the same defaults.

mod run;
#[cfg(test)]
mod tests;

use std::fs;
use std::time::Duration;

use serde::Deserialize;
use strum::{Display, IntoStaticStr};
use toml::Table;

use self::run::PlannedRun;

/// What is done, one phase after the other.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) phases: Vec<Phase>,
}

#[derive(Clone, Debug)]
pub(crate) struct Phase {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) duration: Duration,
    pub(crate) runs: Vec<PlannedRun>,
}

#[derive(Clone, Copy, Debug, Deserialize, Display, IntoStaticStr, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub(crate) enum Kind {
    /// Connections come evenly over the phase, and stay to the end of the plan.
    Ramp,
    /// Runs are made once.
    Hold,
    /// Runs are made once, all their connections at once.
    Spike,
    /// Runs are made again and again.
    Soak,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPlan {
    phase: Vec<RawPhase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPhase {
    name: Option<String>,
    kind: Kind,
    duration: String,
    #[serde(default)]
    run: Vec<Table>,
}

impl Plan {
    /// For clap: reads a plan from a file.
    pub(super) fn from_file(path: &str) -> Result<Self, String> {
        fs::read_to_string(path).map_err(|error| error.to_string())?.parse()
    }
}

impl std::str::FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let raw: RawPlan = toml::from_str(text).map_err(|error| error.to_string())?;
        if raw.phase.is_empty() {
            return Err("it has no phase".to_owned());
        }
        let mut phases: Vec<Phase> = Vec::new();
        for raw in raw.phase {
            let phase = Phase::resolve(raw)?;
            if phases.iter().any(|before| before.name == phase.name) {
                return Err(format!("two phases are named {:?}", phase.name));
            }
            phases.push(phase);
        }
        Ok(Self { phases })
    }
}

impl Phase {
    fn resolve(raw: RawPhase) -> Result<Self, String> {
        let RawPhase { name, kind, duration, run } = raw;
        let name = name.unwrap_or_else(|| kind.to_string());
        let in_phase = |error: String| format!("phase {name:?}: {error}");
        let duration = humantime::parse_duration(&duration)
            .map_err(|error| in_phase(format!("duration {duration:?}: {error}")))?;
        if duration.is_zero() {
            return Err(in_phase("duration: must not be zero".to_owned()));
        }
        let mut runs: Vec<PlannedRun> = Vec::new();
        for table in run {
            let run = PlannedRun::resolve(table, kind, duration).map_err(in_phase)?;
            if runs.iter().any(|before| before.name == run.name) {
                return Err(in_phase(format!("two runs are named {:?}", run.name)));
            }
            runs.push(run);
        }
        Ok(Self { name, kind, duration, runs })
    }
}
