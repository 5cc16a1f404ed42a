//! Compares the keys of the result document, on which users' scripts depend, with the list in the repository.
//! There is one run per scenario.

use std::collections::BTreeSet;
use std::fs;

use clap::Parser as _;
use futures_util::future::try_join_all;
use tokio::runtime::{Builder, LocalOptions};

use super::fault::Fault;
use super::runs::{
    CHURN, EXPIRE, FANOUT, HOLD, LATE, MUTE, RESUME, SLOW, STORM, SelfTestRun, TAKEOVER, VANISH,
};
use super::{STAGGER, measure_at};
use crate::args::{LoadgenArgs, LoadgenCommand};
use crate::result::{Document, Field, Group, is_distribution};
use crate::run::meaningless_assertions;

const KEYS: &str = include_str!("result_keys.txt");
/// Groups whose keys are the close codes, faults and errors that occurred.
const DYNAMIC: [&str; 3] = ["close_codes", "frame_faults", "error_kinds"];

const PLAN: &str = r#"
    phase = [
        { kind = "ramp", duration = "100ms", run = [{ scenario = "hold", connections = 2 }] },
        { kind = "hold", duration = "300ms", run = [
            { scenario = "fanout", connections = 2, messages = 2, publish_rate = 20, grace = "1s" },
            { scenario = "storm", connections = 2, rate = 100, duration = "100ms" },
        ] },
    ]
"#;

#[test]
fn the_result_keys_of_each_scenario_are_stable() {
    let plan = tempfile::NamedTempFile::new().expect("a temporary file can be written");
    fs::write(plan.path(), PLAN).expect("a temporary file can be written");
    let mix =
        SelfTestRun { words: format!("mix URL --plan {}", plan.path().display()).leak(), honest_checks: &[] };
    let hold_and_ping = SelfTestRun {
        words: "hold URL --connections 2 --rate 100 --duration 300ms --ping-every 50ms",
        honest_checks: &[],
    };
    let abuse = SelfTestRun {
        words: "abuse URL --attack none --duration 300ms --quiet-for 100ms --rate 50",
        honest_checks: &[],
    };
    // This command restarts nothing, so no client reconnects, and the run ends after the grace period.
    let restart = SelfTestRun {
        words: "restart URL --restart true --connections 2 --channels 2 --publishers 1 --messages 4 \
                --publish-rate 20 --restart-after 50ms --grace 300ms",
        honest_checks: &[],
    };
    let runs = [
        &HOLD,
        &hold_and_ping,
        &MUTE,
        &LATE,
        &EXPIRE,
        &VANISH,
        &TAKEOVER,
        &STORM,
        &CHURN,
        &FANOUT,
        &RESUME,
        &SLOW,
        &restart,
        &mix,
        &abuse,
    ];
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let documents = runtime.expect("the runtime can be created").block_on(async {
        let start = tokio::time::Instant::now();
        let measured =
            runs.iter().zip(0..).map(|(run, index)| measure_at(start + STAGGER * index, run, Fault::None));
        try_join_all(measured).await.expect("every run completes")
    });
    let keys: String = documents.iter().map(keys_of).collect();
    assert!(keys == KEYS, "{keys}");
    for (run, document) in runs.iter().zip(&documents) {
        assert_eq!(refused_assertions(run, document), Vec::<String>::new(), "{}", run.words);
    }
}

/// Returns the messages for assertions on numbers of the result that would wrongly be refused before the run.
fn refused_assertions(run: &SelfTestRun, document: &Document) -> Vec<String> {
    let mut paths = Vec::new();
    for (name, field) in document.as_group().iter().filter(|(name, _)| *name != "series") {
        add_numbers(name, field, &mut paths);
    }
    assert!(paths.len() > 30, "{paths:?}");
    let words = format!("loadgen {}", run.words.replace("URL", "ws://127.0.0.1:1/ws"));
    let assertions = paths.iter().flat_map(|path| ["--assert".to_owned(), format!("{path}>=0")]);
    let args = LoadgenArgs::try_parse_from(words.split(' ').map(str::to_owned).chain(assertions));
    match args.expect("the arguments are valid").command {
        LoadgenCommand::Run(scenario) => meaningless_assertions(&scenario),
        _ => panic!("it is no scenario"),
    }
}

fn add_numbers(path: &str, field: &Field, paths: &mut Vec<String>) {
    match field {
        Field::Group(group) => {
            group.iter().for_each(|(name, field)| add_numbers(&format!("{path}.{name}"), field, paths));
        }
        Field::List(list) => {
            list.iter()
                .zip(0..)
                .for_each(|(field, index)| add_numbers(&format!("{path}[{index}]"), field, paths));
        }
        field => paths.extend(field.as_number().map(|_| path.to_owned())),
    }
}

/// Returns one line per key: its path, which begins with the scenario's name.
fn keys_of(document: &Document) -> String {
    let mut paths = Vec::new();
    add_paths(document.text("scenario"), document.as_group(), &mut paths);
    let mut seen = BTreeSet::new();
    paths.retain(|path| seen.insert(path.clone()));
    paths.join("\n") + "\n"
}

fn add_paths(path: &str, group: &Group, paths: &mut Vec<String>) {
    if is_distribution(group) {
        let names: Vec<_> = group.iter().map(|(name, _)| name).collect();
        return paths.push(format!("{path}/ {}", names.join(" ")));
    }
    for (name, field) in group.iter() {
        let is_dynamic = DYNAMIC.iter().any(|dynamic| path.ends_with(dynamic)) || name.starts_with("closes.");
        // Skip all but the maximum: all timings have the same percentiles.
        if path.ends_with("/times") && !name.ends_with(".max") {
            continue;
        }
        add_field(&format!("{path}/{}", if is_dynamic { "*" } else { name }), field, paths);
    }
}

fn add_field(path: &str, field: &Field, paths: &mut Vec<String>) {
    if !path.ends_with('*') {
        paths.push(path.to_owned());
    }
    match field {
        Field::Group(group) => add_paths(path, group, paths),
        // List the fields of a complete histogram.
        Field::Distribution(_) => paths.extend(["unit", "hdr"].map(|name| format!("{path}/{name}"))),
        Field::List(list) => {
            list.iter().filter_map(Field::as_group).for_each(|group| add_paths(path, group, paths));
        }
        _ => {}
    }
}
