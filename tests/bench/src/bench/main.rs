//! Measures the server and its controls alternately, and prints the results and their ratios.
//!
//! [`process`] starts a server on a separate processor, [`clients`] connect to it, [`heartbeat`],
//! [`broadcast`] and [`parking`] are the measurements, [`sample`] reads the process's counters, and
//! [`heartbeat_report`] prints the results. The benchmark uses one thread, on another processor.

mod args;
mod broadcast;
mod broadcast_report;
mod clients;
mod command_load;
mod comparison;
mod heartbeat;
mod heartbeat_report;
mod loadgen;
mod memory;
mod parking;
mod parking_report;
mod placement;
mod process;
mod publisher;
mod sample;
mod statistics;
mod subscribers;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::{Builder, LocalOptions};
use tokio::signal::unix::{SignalKind, signal};

use args::{BenchArgs, Plan};
use broadcast_report::BroadcastReport;
use heartbeat_report::HeartbeatReport;
use parking::ParkingRow;
use parking_report::ParkingReport;
use placement::CpuPlacement;
use process::{BenchBinaries, ServerKind};

/// Why the benchmark has no results, as a message for the user.
type BenchFailure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let plan = BenchArgs::parse().plan();
    match run(&plan) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            print_progress(&format!("bench: {failure}"));
            ExitCode::FAILURE
        }
    }
}

fn run(plan: &Plan) -> Result<(), BenchFailure> {
    if plan.servers.contains(&ServerKind::Variant) && plan.variant.is_empty() {
        return Err("`--only variant` needs a `--variant KEY=VALUE`".into());
    }
    let binaries = BenchBinaries::find()?;
    let placement = CpuPlacement::choose()?;
    rlimit::increase_nofile_limit(u64::MAX)?;
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    let output = runtime.block_on(async {
        // Dropping the measurement kills the processes it has started.
        let mut terminated = signal(SignalKind::terminate())?;
        tokio::select! {
            output = measure(plan, &binaries, &placement) => output,
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
            _ = terminated.recv() => Err("terminated".into()),
        }
    })?;
    writeln!(io::stdout(), "{}", output.summary)?;
    if let Some(path) = &plan.json {
        std::fs::write(path, output.json)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

/// Results of a benchmark.
struct BenchOutput {
    summary: String,
    json: String,
}

async fn measure(
    plan: &Plan,
    binaries: &BenchBinaries,
    placement: &CpuPlacement,
) -> Result<BenchOutput, BenchFailure> {
    if plan.broadcast {
        measure_broadcast(plan, binaries, placement).await
    } else if plan.parking {
        measure_parking(plan, binaries, placement).await
    } else {
        measure_heartbeats(plan, binaries, placement).await
    }
}

async fn measure_heartbeats(
    plan: &Plan,
    binaries: &BenchBinaries,
    placement: &CpuPlacement,
) -> Result<BenchOutput, BenchFailure> {
    let mut report = HeartbeatReport::new(plan, placement);
    for run in 1..=plan.runs {
        for kind in measurement_order(run, plan, |_| true) {
            report.rows.push(heartbeat::measure(run, kind, plan, binaries, placement).await?);
        }
        writeln!(io::stdout(), "{}", report.table_of_run(run))?;
    }
    if plan.mute {
        print_progress("loadgen mute");
        report.mute = Some(loadgen::mute(plan, binaries, placement).await?);
    }
    if plan.storm {
        print_progress("loadgen storm");
        report.storm = Some(loadgen::storm(plan, binaries, placement).await?);
    }
    Ok(BenchOutput { summary: report.summary_table(), json: report.to_json() })
}

async fn measure_broadcast(
    plan: &Plan,
    binaries: &BenchBinaries,
    placement: &CpuPlacement,
) -> Result<BenchOutput, BenchFailure> {
    let mut report = BroadcastReport::new(plan, placement);
    for run in 1..=plan.runs {
        for kind in measurement_order(run, plan, |_| true) {
            report.rows.push(broadcast::measure(run, kind, plan, binaries, placement).await?);
        }
        writeln!(io::stdout(), "{}", report.table_of_run(run))?;
    }
    Ok(BenchOutput { summary: report.summary_table(), json: report.to_json() })
}

/// Measures part by part, so that measurements of different servers are only minutes apart.
async fn measure_parking(
    plan: &Plan,
    binaries: &BenchBinaries,
    placement: &CpuPlacement,
) -> Result<BenchOutput, BenchFailure> {
    let mut report = ParkingReport::new(plan, placement);
    for run in 1..=plan.runs {
        let mut rows: Vec<ParkingRow> = plan.servers.iter().map(|kind| ParkingRow::new(run, *kind)).collect();
        for part in &plan.parts {
            print_progress(part.name());
            for kind in measurement_order(run, plan, |kind| part.is_for(kind)) {
                let row = rows.iter_mut().find(|row| row.server == kind).expect("each server has a row");
                row.measure(*part, plan, binaries, placement).await?;
            }
        }
        report.rows.extend(rows);
        writeln!(io::stdout(), "{}", report.table_of_last_run())?;
    }
    Ok(BenchOutput { summary: report.summary_table(), json: report.to_json() })
}

/// Returns the order in which servers are measured in a run, and announces each.
fn measurement_order(
    run: u32,
    plan: &Plan,
    wanted: impl Fn(ServerKind) -> bool,
) -> impl Iterator<Item = ServerKind> {
    // Rotate the order, because a later server may find the machine warmer.
    let mut order = plan.servers.clone();
    let places = order.len();
    order.rotate_left((run as usize - 1) % places);
    let wanted = order.into_iter().filter(move |kind| wanted(*kind));
    wanted.inspect(move |kind| print_progress(&format!("run {run} of {}: {}", plan.runs, kind.name())))
}

/// Prints progress and errors. Ignores failures: a closed stderr does not stop the benchmark.
fn print_progress(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
