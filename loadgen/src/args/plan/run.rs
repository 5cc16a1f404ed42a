//! A run of a phase: a table whose keys are the flags of its scenario.

use std::time::Duration;

use clap::{Args as _, Parser};
use toml::{Table, Value};

use super::Kind;
use crate::args::{Args, Command, Mix, Scenario};

/// Options of the mix that a run may have, too: a publisher may need them.
const OF_BOTH: [&str; 2] = ["admin", "api_key"];
/// Takes the place of the server until it is known.
const SOME_SERVER: &str = "ws://server.invalid/";
/// The highest rate that there is: all at once.
const AT_ONCE: &str = "1000000";

#[derive(Clone, Debug)]
pub(crate) struct PlannedRun {
    pub(crate) name: String,
    pub(crate) scenario: Scenario,
}

impl PlannedRun {
    pub(super) fn resolve(mut table: Table, kind: Kind, phase: Duration) -> Result<Self, String> {
        let scenario = take_text(&mut table, "scenario")?.ok_or("a run without a scenario")?;
        let name = take_text(&mut table, "name")?.unwrap_or_else(|| scenario.clone());
        let in_run = |error: String| format!("run {name:?}: {error}");
        if scenario == "mix" {
            return Err(in_run("a mix has no mix in it".to_owned()));
        }
        if scenario == "abuse" {
            return Err(in_run("it measures one attacker beside one session, and nothing else".to_owned()));
        }
        if scenario == "restart" {
            return Err(in_run("it would restart the server of all others, too".to_owned()));
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
        match args.command {
            Command::Run(scenario) => Ok(Self { name, scenario }),
            Command::Selftest | Command::Compare(_) => Err(in_run("this is no scenario".to_owned())),
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
    if is_of_the_mix(&key) && !OF_BOTH.contains(&key.as_str()) {
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

fn is_of_the_mix(key: &str) -> bool {
    Mix::augment_args(clap::Command::default()).get_arguments().any(|argument| argument.get_id() == key)
}

/// The sentence of an error of clap's that says what is wrong.
fn reason(error: &clap::Error) -> String {
    let text = error.to_string();
    let end = text.find("\n\nUsage").unwrap_or(text.len());
    let text = text[..end].trim_start_matches("error: ").replace("argument '--", "key '--");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
