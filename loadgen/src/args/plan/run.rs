//! One run of a phase: a table whose keys are the options of its scenario.

use std::time::Duration;

use clap::{Args as _, Parser};
use toml::{Table, Value};

use super::PhaseKind;
use crate::args::{LoadgenArgs, LoadgenCommand, MixOptions, ScenarioOptions};

/// Options of the mix that are also allowed in a run, because a publisher may need them.
const SHARED_OPTIONS: [&str; 2] = ["admin", "api_key"];
/// Placeholder URL: the server is not known until the mix starts.
const PLACEHOLDER_URL: &str = "ws://server.invalid/";
/// Highest rate that is accepted. It opens all connections practically simultaneously.
const MAX_RATE: &str = "1000000";

#[derive(Clone, Debug)]
pub(crate) struct PlannedRun {
    pub(crate) name: String,
    pub(crate) scenario: ScenarioOptions,
}

impl PlannedRun {
    pub(super) fn resolve(mut table: Table, kind: PhaseKind, phase: Duration) -> Result<Self, String> {
        let scenario = take_string(&mut table, "scenario")?.ok_or("a run without a scenario")?;
        let name = take_string(&mut table, "name")?.unwrap_or_else(|| scenario.clone());
        let in_run = |error: String| format!("run {name:?}: {error}");
        let refused = match scenario.as_str() {
            "mix" => "a mix cannot contain a mix",
            "abuse" => "abuse cannot be part of a mix: it measures one attacker beside one session",
            "restart" => "restart cannot be part of a mix: it would restart the server of all other runs",
            "nodes" => "nodes cannot be part of a mix: it needs several servers",
            other if kind == PhaseKind::Ramp && other != "hold" => {
                "a ramp allows only hold: other connections do not stay open"
            }
            _ => "",
        };
        if !refused.is_empty() {
            return Err(in_run(refused.to_owned()));
        }
        set_defaults(&mut table, &scenario, kind, phase).map_err(in_run)?;
        let mut words = vec!["loadgen".to_owned(), scenario, PLACEHOLDER_URL.to_owned()];
        for (key, value) in table {
            words.extend(flag(&key, &value).map_err(in_run)?);
        }
        let args = LoadgenArgs::try_parse_from(words).map_err(|error| in_run(reason(&error)))?;
        match args.command {
            LoadgenCommand::Run(scenario) => Ok(Self { name, scenario }),
            LoadgenCommand::Selftest => Err(in_run("not a scenario".to_owned())),
        }
    }
}

/// Adds the values that the phase implies, unless the run sets them itself.
fn set_defaults(table: &mut Table, scenario: &str, kind: PhaseKind, phase: Duration) -> Result<(), String> {
    let connections = table.get("connections").and_then(Value::as_integer);
    match kind {
        PhaseKind::Ramp => {
            if table.contains_key("rate") || table.contains_key("duration") {
                return Err("in a ramp, rate and duration follow from the phase".to_owned());
            }
            #[expect(clippy::cast_precision_loss, reason = "no number of connections comes near 2^53")]
            let rate = connections.unwrap_or(1) as f64 / phase.as_secs_f64();
            table.insert("rate".to_owned(), Value::Float(rate));
        }
        PhaseKind::Spike => drop(table.entry("rate").or_insert_with(|| MAX_RATE.into())),
        PhaseKind::Hold | PhaseKind::Soak => {}
    }
    // Leave the other scenarios alone: they act at the end of their duration, and only the plan's author
    // knows when that should be.
    if ["hold", "mute"].contains(&scenario) {
        let duration = humantime::format_duration(phase).to_string().replace(' ', "");
        table.entry("duration").or_insert_with(|| duration.into());
    }
    Ok(())
}

fn take_string(table: &mut Table, key: &str) -> Result<Option<String>, String> {
    match table.remove(key) {
        None => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
        Some(other) => Err(format!("{key} must be a string, not {other}")),
    }
}

/// Converts a key and its value to an option and its argument on the command line.
fn flag(key: &str, value: &Value) -> Result<[String; 2], String> {
    let key = key.replace('-', "_");
    if is_mix_option(&key) && !SHARED_OPTIONS.contains(&key.as_str()) {
        return Err(format!("{key} belongs to the mix, not to a run"));
    }
    let value = match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        other => return Err(format!("{key} must be a string or a number, not {other}")),
    };
    Ok([format!("--{}", key.replace('_', "-")), value])
}

fn is_mix_option(key: &str) -> bool {
    MixOptions::augment_args(clap::Command::default())
        .get_arguments()
        .any(|argument| argument.get_id() == key)
}

/// Extracts the sentence that says what is wrong from a clap error.
fn reason(error: &clap::Error) -> String {
    let text = error.to_string();
    let end = text.find("\n\nUsage").unwrap_or(text.len());
    let text = text[..end].trim_start_matches("error: ").replace("argument '--", "key '--");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
