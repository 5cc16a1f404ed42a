//! Measures the server and the control, turn by turn, and tells the figures and their ratios.
//!
//! [`process`] starts a server on a processor of its own, [`client`] is the crowd, [`scenario`] what is done to a
//! server, [`sample`] what is read of it, [`report`] what is told. One thread, on another processor.

mod args;
mod client;
mod frames;
mod loadgen;
mod placement;
mod process;
mod report;
mod sample;
mod scenario;
mod statistics;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::{Builder, LocalOptions};
use tokio::signal::unix::{SignalKind, signal};

use args::{Args, Plan};
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
    let report = runtime.block_on(async {
        // Dropping the measurement ends the processes it has started.
        let mut terminated = signal(SignalKind::terminate())?;
        tokio::select! {
            report = measure(plan, &binaries, &placement) => report,
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
            _ = terminated.recv() => Err("terminated".into()),
        }
    })?;
    writeln!(io::stdout(), "{}", report.summary_table())?;
    if let Some(path) = &plan.json {
        std::fs::write(path, report.to_json())
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

async fn measure(plan: &Plan, binaries: &Binaries, placement: &Placement) -> Result<Report, Failure> {
    let mut report = Report::new(plan, placement);
    for run in 1..=plan.runs {
        // Whoever comes second may find the machine warmer: they take turns.
        let order = if run % 2 == 1 { [Kind::Encke, Kind::Control] } else { [Kind::Control, Kind::Encke] };
        for kind in order {
            say(&format!("run {run} of {}: {}", plan.runs, kind.name()));
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
    Ok(report)
}

/// Progress and complaints; a closed stderr is no reason to stop.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
