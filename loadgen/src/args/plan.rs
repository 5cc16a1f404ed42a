//! The plan of a `mix`: phases, each with scenarios that run at once.
//!
//! A run's keys are the flags of its scenario, so they have the same checks and the same defaults.

use std::fs;
use std::time::Duration;

use clap::Parser;
use serde::Deserialize;
use toml::{Table, Value};

use super::{Args, Scenario};

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

#[derive(Clone, Debug)]
pub(crate) struct PlannedRun {
    pub(crate) name: String,
    pub(crate) scenario: Scenario,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
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

/// What belongs to the mix, not to one of its runs.
const OF_THE_MIX: [&str; 8] =
    ["url", "target", "pong_timeout", "reconnect_window", "json", "assert", "connect_timeout", "plan"];
/// Takes the place of the server until it is known.
const SOME_SERVER: &str = "ws://server.invalid/";
/// The highest rate that there is: all at once.
const AT_ONCE: &str = "1000000";

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
        let name = name.unwrap_or_else(|| kind.name().to_owned());
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

impl PlannedRun {
    fn resolve(mut table: Table, kind: Kind, phase: Duration) -> Result<Self, String> {
        let scenario = take_text(&mut table, "scenario")?.ok_or("a run without a scenario")?;
        let name = take_text(&mut table, "name")?.unwrap_or_else(|| scenario.clone());
        let in_run = |error: String| format!("run {name:?}: {error}");
        if scenario == "mix" {
            return Err(in_run("a mix has no mix in it".to_owned()));
        }
        if kind == Kind::Ramp && scenario != "hold" {
            return Err(in_run("in a ramp there is only hold, for the others do not stay".to_owned()));
        }
        set_defaults(&mut table, &scenario, kind, phase).map_err(in_run)?;
        let mut words = vec!["loadgen".to_owned(), scenario, SOME_SERVER.to_owned()];
        for (key, value) in table {
            words.extend(flag(&key, &value).map_err(in_run)?);
        }
        let args = Args::try_parse_from(words).map_err(|error| in_run(reason(&error)))?;
        Ok(Self { name, scenario: args.scenario })
    }
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ramp => "ramp",
            Self::Hold => "hold",
            Self::Spike => "spike",
            Self::Soak => "soak",
        }
    }
}

/// What the phase says, where the run does not.
fn set_defaults(table: &mut Table, scenario: &str, kind: Kind, phase: Duration) -> Result<(), String> {
    let connections = table.get("connections").and_then(Value::as_integer);
    match kind {
        Kind::Ramp => {
            if table.contains_key("rate") || table.contains_key("duration") {
                return Err("in a ramp, rate and duration follow from the phase".to_owned());
            }
            #[expect(clippy::cast_precision_loss, reason = "no number of connections comes near 2^53")]
            let rate = connections.unwrap_or(1) as f64 / phase.as_secs_f64();
            table.insert("rate".to_owned(), Value::Float(rate));
        }
        Kind::Spike => drop(table.entry("rate").or_insert_with(|| AT_ONCE.into())),
        Kind::Hold | Kind::Soak => {}
    }
    // The others do something at the end of that time: when, only the plan can know.
    if ["hold", "mute", "late"].contains(&scenario) {
        let duration = humantime::format_duration(phase).to_string().replace(' ', "");
        table.entry("duration").or_insert_with(|| duration.into());
    }
    Ok(())
}

fn take_text(table: &mut Table, key: &str) -> Result<Option<String>, String> {
    match table.remove(key) {
        None => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
        Some(other) => Err(format!("{key} must be a text, not {other}")),
    }
}

/// The words of one flag.
fn flag(key: &str, value: &Value) -> Result<[String; 2], String> {
    let key = key.replace('-', "_");
    if OF_THE_MIX.contains(&key.as_str()) {
        return Err(format!("{key} belongs to the mix, not to a run"));
    }
    let value = match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        other => return Err(format!("{key} must be a text or a number, not {other}")),
    };
    Ok([format!("--{}", key.replace('_', "-")), value])
}

/// The sentence of an error of clap's that says what is wrong.
fn reason(error: &clap::Error) -> String {
    let text = error.to_string();
    let end = text.find("\n\nUsage").unwrap_or(text.len());
    let text = text[..end].trim_start_matches("error: ").replace("argument '--", "key '--");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        [[phase]]
        kind = "ramp"
        duration = "2m"
        run = [{ scenario = "hold", name = "crowd", connections = 6000 }]

        [[phase]]
        name = "all at once"
        kind = "soak"
        duration = "10m"
          [[phase.run]]
          scenario = "storm"
          connections = 500
          rate = 1000
          duration = "5s"
          [[phase.run]]
          scenario = "fanout"
          connections = 100
          publish_rate = 10
          cut-after = "5s"

        [[phase]]
        kind = "spike"
        duration = "10s"
        run = [{ scenario = "mute", connections = 100 }]
    "#;

    fn parse(text: &str) -> Result<Plan, String> {
        text.parse()
    }

    #[test]
    fn a_plan_says_what_its_phases_do() {
        let plan = parse(GOOD).expect("it is good");
        let names: Vec<_> = plan.phases.iter().map(|phase| (phase.name.as_str(), phase.kind)).collect();
        assert_eq!(names, [("ramp", Kind::Ramp), ("all at once", Kind::Soak), ("spike", Kind::Spike)]);
        let loads: Vec<_> = plan
            .phases
            .iter()
            .flat_map(|phase| &phase.runs)
            .map(|run| (run.name.as_str(), run.scenario.load()))
            .map(|(name, load)| (name, load.connections, load.rate, load.duration.as_secs()))
            .collect();
        assert_eq!(
            loads,
            [
                ("crowd", 6000, 50.0, 120),
                ("storm", 500, 1000.0, 5),
                ("fanout", 100, 1000.0, 0),
                ("mute", 100, 1e6, 10)
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let storm = "scenario = 'storm', connections = 5, rate = 10, duration = '1s'";
        let run = |run: &str| format!("phase = [{{ kind = 'hold', duration = '1s', run = [{{ {run} }}] }}]");
        let with = |more: &str| run(&format!("{storm}, {more}"));
        for (text, wrong) in [
            ("", "missing field `phase`"),
            ("phase = []", "no phase"),
            ("phases = 1", "unknown field `phases`"),
            ("phase = [{ kind = 'hop', duration = '1s' }]", "hop"),
            ("phase = [{ kind = 'hold', duration = 'long' }]", "\"long\""),
            ("phase = [{ kind = 'hold', duration = '0s' }]", "zero"),
            ("phase = [{ kind = 'hold', duration = '1s', runs = [] }]", "unknown field `runs`"),
            (
                "phase = [{ kind = 'hold', duration = '1s' }, { kind = 'hold', duration = '1s' }]",
                "two phases",
            ),
            (&run("connections = 5"), "without a scenario"),
            (&run("scenario = 'dance'"), "dance"),
            (&run("scenario = 'mix'"), "no mix"),
            (&run("scenario = 'storm', connections = 5"), "--rate"),
            (&with("connectoins = 5"), "run \"storm\": unexpected key '--connectoins'"),
            (&with("json = 'x'"), "json belongs to the mix"),
            (&with("share = true"), "share must be a text or a number"),
            (&with("connect-timeout = '1s'"), "connect_timeout belongs"),
            ("phase = [{ kind = 'ramp', duration = '1s', run = [{ scenario = 'mute' }] }]", "only hold"),
            (
                "phase = [{ kind = 'ramp', duration = '1s', run = [{ scenario = 'hold', rate = 1 }] }]",
                "follow from the phase",
            ),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(wrong), "{text}: {error}");
        }
    }
}
