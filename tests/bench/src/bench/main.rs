//! Measures the cost of a session: the server against controls. See `bench --help` for options.

mod args;
mod crowd;
mod part;
mod placement;
mod report;
mod server;
mod spread;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use serde_json::json;
use tokio::runtime::{Builder, LocalOptions};
use tokio::signal::unix::{SignalKind, signal};

use args::BenchArgs;
use placement::CpuPlacement;
use report::Row;
use server::Launcher;

/// Why the benchmark has no results, as a message for the user.
type BenchFailure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match run(&BenchArgs::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            print_progress(&format!("bench: {failure}"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &BenchArgs) -> Result<(), BenchFailure> {
    if args.servers().contains(&server::ServerKind::Variant) && args.variant.is_empty() {
        return Err("`--only variant` needs a `--variant KEY=VALUE`".into());
    }
    let placement = CpuPlacement::choose()?;
    let launcher = Launcher::find(placement)?;
    rlimit::increase_nofile_limit(u64::MAX)?;
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    let rows = runtime.block_on(async {
        // Dropping the measurement kills the processes it has started.
        let mut terminated = signal(SignalKind::terminate())?;
        tokio::select! {
            rows = measure(args, &launcher) => rows,
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
            _ = terminated.recv() => Err("terminated".into()),
        }
    })?;
    writeln!(io::stdout(), "{}\n{}", report::table(&rows), report::threads_and_goals(&rows))?;
    if let Some(path) = &args.json {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
        let setup = json!({
            "command": std::env::args().collect::<Vec<_>>(),
            "kernel": kernel.trim(),
            "server_cpu": placement.server,
            "client_cpu": placement.client,
        });
        let results = json!({ "setup": setup, "rows": rows });
        std::fs::write(path, format!("{results:#}"))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

/// Measures part by part, so that measurements of different servers are only minutes apart.
async fn measure(args: &BenchArgs, launcher: &Launcher) -> Result<Vec<Row>, BenchFailure> {
    let mut rows = Vec::new();
    for run in 1..=args.runs {
        // Rotate the order, because a later server may find the machine warmer.
        let mut servers = args.servers();
        let places = servers.len();
        servers.rotate_left((run as usize - 1) % places);
        let mut of_run: Vec<_> = servers.iter().map(|server| Row::new(run, *server)).collect();
        for part in args.parts() {
            for row in of_run.iter_mut().filter(|row| part.is_for(row.server)) {
                let runs = args.runs;
                print_progress(&format!("run {run} of {runs}: {part:?} of {:?}", row.server));
                part.measure(row, args, launcher).await?;
            }
        }
        writeln!(io::stdout(), "{}", report::table(&of_run))?;
        rows.extend(of_run);
    }
    Ok(rows)
}

/// Prints progress and errors. Ignores failures: a closed stderr does not stop the benchmark.
fn print_progress(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn to_real(count: u64) -> f64 {
    count as f64
}
