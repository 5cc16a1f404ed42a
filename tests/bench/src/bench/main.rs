//! Measures the server and the control, turn by turn, and tells the figures and their ratios.
//!
//! [`process`] starts a server on a processor of its own, [`clients`] connect to it, [`scenario`] and [`broadcast`] what
//! is done to a server, [`sample`] what is read of it, [`report`] what is told. One thread, on another processor.

mod args;
mod broadcast;
mod broadcast_report;
mod clients;
mod loadgen;
mod pairs;
mod placement;
mod process;
mod publisher;
mod report;
mod sample;
mod scenario;
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
        for kind in turns(run, plan) {
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
        for kind in turns(run, plan) {
            report.rows.push(broadcast::measure(run, kind, plan, binaries, placement).await?);
        }
        writeln!(io::stdout(), "{}", report.table_of_run(run))?;
    }
    Ok(Told { summary: report.summary_table(), json: report.to_json() })
}

/// Who is measured in a run, one after the other; each is announced as its turn comes.
fn turns(run: u32, plan: &Plan) -> impl Iterator<Item = Kind> {
    // Whoever comes second may find the machine warmer: they take turns.
    let order = if run % 2 == 1 { [Kind::Encke, Kind::Control] } else { [Kind::Control, Kind::Encke] };
    let wanted = order.into_iter().filter(|kind| plan.only.is_none_or(|only| only == *kind));
    wanted.inspect(move |kind| say(&format!("run {run} of {}: {}", plan.runs, kind.name())))
}

/// Progress and complaints; a closed stderr is no reason to stop.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
