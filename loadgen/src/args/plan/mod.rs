//! Plan of a `mix`: phases, each with scenarios that run simultaneously.
//!
//! The keys of a run are the options of its scenario, so they have the same checks and defaults.

mod run;
#[cfg(test)]
mod tests;

use std::fs;
use std::time::Duration;

use serde::Deserialize;
use strum::{Display, IntoStaticStr};
use toml::Table;

use self::run::PlannedRun;
use super::number::parse_interval;

/// Plan: phases that run one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) phases: Vec<PlannedPhase>,
}

#[derive(Clone, Debug)]
pub(crate) struct PlannedPhase {
    pub(crate) name: String,
    pub(crate) kind: PhaseKind,
    pub(crate) duration: Duration,
    pub(crate) runs: Vec<PlannedRun>,
}

#[derive(Clone, Copy, Debug, Deserialize, Display, IntoStaticStr, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub(crate) enum PhaseKind {
    /// Connections are opened evenly over the phase, and stay open until the plan ends.
    Ramp,
    /// Each run starts once.
    Hold,
    /// Each run starts once, and opens all its connections simultaneously.
    Spike,
    /// Each run is repeated until the phase ends.
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
    kind: PhaseKind,
    duration: String,
    #[serde(default)]
    run: Vec<Table>,
}

impl Plan {
    pub(super) fn from_file(path: &str) -> Result<Self, String> {
        fs::read_to_string(path).map_err(|error| error.to_string())?.parse()
    }
}

impl std::str::FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let raw: RawPlan = toml::from_str(text).map_err(|error| error.to_string())?;
        if raw.phase.is_empty() {
            return Err("the plan has no phase".to_owned());
        }
        let mut phases: Vec<PlannedPhase> = Vec::new();
        for raw in raw.phase {
            let phase = PlannedPhase::resolve(raw)?;
            if phases.iter().any(|before| before.name == phase.name) {
                return Err(format!("two phases are named {:?}", phase.name));
            }
            phases.push(phase);
        }
        Ok(Self { phases })
    }
}

impl PlannedPhase {
    fn resolve(raw: RawPhase) -> Result<Self, String> {
        let RawPhase { name, kind, duration, run } = raw;
        let name = name.unwrap_or_else(|| kind.to_string());
        let in_phase = |error: String| format!("phase {name:?}: {error}");
        let duration =
            parse_interval(&duration).map_err(|error| in_phase(format!("duration {duration:?}: {error}")))?;
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
