//! Measures the server and its controls, turn by turn, and tells the figures and their ratios.
//!
//! [`process`] starts a server on a processor of its own, [`clients`] connect to it, [`scenario`], [`broadcast`] and [`rest`] what
//! is done to a server, [`sample`] what is read of it, [`report`] what is told. One thread, on another processor.

mod args;
mod broadcast;
mod broadcast_report;
mod bytes;
mod clients;
mod loadgen;
mod pairs;
mod placement;
mod process;
mod publisher;
mod report;
mod rest;
mod rest_report;
mod sample;
mod scenario;
mod speaking;
mod statistics;
mod subscribers;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::{Builder, LocalOptions};
use tokio::signal::unix::{SignalKind, signal};

use args::{Args, Plan};
use broadcast_report::BroadcastReport;
use placement::Placement;
use process::{Binaries, Kind};
use report::Report;
use rest::Row;
use rest_report::RestReport;

/// Whatever keeps the benchmark from its figures, as a sentence for its user.
type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let plan = Args::parse().plan();
    match run(&plan) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&format!("bench: {failure}"));
            ExitCode::FAILURE
        }
    }
}

fn run(plan: &Plan) -> Result<(), Failure> {
    if plan.servers.contains(&Kind::Variant) && plan.variant.is_empty() {
        return Err("`--only variant` needs a `--variant KEY=VALUE`".into());
    }
    let binaries = Binaries::find()?;
    let placement = Placement::choose()?;
    rlimit::increase_nofile_limit(u64::MAX)?;
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    let told = runtime.block_on(async {
        // Dropping the measurement ends the processes it has started.
        let mut terminated = signal(SignalKind::terminate())?;
        tokio::select! {
            told = measure(plan, &binaries, &placement) => told,
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
            _ = terminated.recv() => Err("terminated".into()),
        }
    })?;
    writeln!(io::stdout(), "{}", told.summary)?;
    if let Some(path) = &plan.json {
        std::fs::write(path, told.json)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

/// What comes out in the end.
struct Told {
    summary: String,
    json: String,
}

async fn measure(plan: &Plan, binaries: &Binaries, placement: &Placement) -> Result<Told, Failure> {
    if plan.broadcast {
        measure_broadcast(plan, binaries, placement).await
    } else if plan.rest {
        measure_rest(plan, binaries, placement).await
    } else {
        measure_heartbeats(plan, binaries, placement).await
    }
}

async fn measure_heartbeats(
    plan: &Plan,
    binaries: &Binaries,
    placement: &Placement,
) -> Result<Told, Failure> {
    let mut report = Report::new(plan, placement);
    for run in 1..=plan.runs {
        for kind in turns(run, plan, |_| true) {
            report.rows.push(scenario::measure(run, kind, plan, binaries, placement).await?);
        }
        writeln!(io::stdout(), "{}", report.table_of_run(run))?;
    }
    if plan.mute {
        say("loadgen mute");
        report.mute = Some(loadgen::mute(plan, binaries, placement).await?);
    }
    if plan.storm {
        say("loadgen storm");
        report.storm = Some(loadgen::storm(plan, binaries, placement).await?);
    }
    Ok(Told { summary: report.summary_table(), json: report.to_json() })
}

async fn measure_broadcast(plan: &Plan, binaries: &Binaries, placement: &Placement) -> Result<Told, Failure> {
    let mut report = BroadcastReport::new(plan, placement);
    for run in 1..=plan.runs {
        for kind in turns(run, plan, |_| true) {
            report.rows.push(broadcast::measure(run, kind, plan, binaries, placement).await?);
        }
        writeln!(io::stdout(), "{}", report.table_of_run(run))?;
    }
    Ok(Told { summary: report.summary_table(), json: report.to_json() })
}

/// Each part by itself, so that the servers take turns within minutes.
async fn measure_rest(plan: &Plan, binaries: &Binaries, placement: &Placement) -> Result<Told, Failure> {
    let mut report = RestReport::new(plan, placement);
    for run in 1..=plan.runs {
        let mut rows: Vec<Row> = plan.servers.iter().map(|kind| Row::new(run, *kind)).collect();
        for part in &plan.parts {
            say(part.name());
            for kind in turns(run, plan, |kind| part.is_for(kind)) {
                let row = rows.iter_mut().find(|row| row.server == kind).expect("each server has a row");
                row.measure(*part, plan, binaries, placement).await?;
            }
        }
        report.rows.extend(rows);
        writeln!(io::stdout(), "{}", report.table_of_last_run())?;
    }
    Ok(Told { summary: report.summary_table(), json: report.to_json() })
}

/// Which server is measured when in a run; each is announced as its turn comes.
fn turns(run: u32, plan: &Plan, wanted: impl Fn(Kind) -> bool) -> impl Iterator<Item = Kind> {
    // A server that comes later may find the machine warmer: they take turns.
    let mut order = plan.servers.clone();
    let places = order.len();
    order.rotate_left((run as usize - 1) % places);
    let wanted = order.into_iter().filter(move |kind| wanted(*kind));
    wanted.inspect(move |kind| say(&format!("run {run} of {}: {}", plan.runs, kind.name())))
}

/// Progress and complaints; a closed stderr is no reason to stop.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
