//! Runs the cells of the table concurrently, and prints the table. See `faults --help` for options.

mod args;

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use args::FaultsArgs;
use clap::Parser;
use encke_faults::{CellOutcome, FaultCell, table};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args = FaultsArgs::parse();
    let over = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The first signal stops the cells; a second one kills the process.
        flag::register_conditional_default(signal, Arc::clone(&over))?;
        flag::register(signal, Arc::clone(&over))?;
    }
    let cells = args.cells();
    let outcomes = run(&cells, &over)?;
    if let Some(path) = &args.json {
        fs::write(path, serde_json::to_string_pretty(&outcomes)?)?;
    }
    let (summary, details) = (table::by_link_and_client(&outcomes), table::in_detail(&outcomes));
    writeln!(io::stdout(), "{summary}\n\n{details}")?;
    let is_success = outcomes.len() == cells.len() && outcomes.iter().all(CellOutcome::is_exact);
    Ok(if is_success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs all cells concurrently. The result lacks interrupted cells, and those that panicked, whose panics
/// have been printed.
fn run(cells: &[FaultCell], over: &AtomicBool) -> io::Result<Vec<CellOutcome>> {
    thread::scope(|scope| {
        let mut running = Vec::new();
        for cell in cells {
            let name = format!("{} {}", cell.condition, cell.client);
            running.push(thread::Builder::new().name(name).spawn_scoped(scope, || cell.run(over))?);
        }
        Ok(running.into_iter().filter_map(|cell| cell.join().ok().flatten()).collect())
    })
}
