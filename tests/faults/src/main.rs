//! The table: runs its cells side by side and prints it. `faults --help` has the options.

mod args;

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use args::Args;
use clap::Parser;
use encke_faults::{Cell, Outcome, table};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args = Args::parse();
    let over = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The first ends it in good order, a second at once.
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
    let good = outcomes.len() == cells.len() && outcomes.iter().all(Outcome::is_exact);
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// All at once. What could not be run is left out, its panic was printed; and so is what was interrupted.
fn run(cells: &[Cell], over: &AtomicBool) -> io::Result<Vec<Outcome>> {
    thread::scope(|scope| {
        let mut running = Vec::new();
        for cell in cells {
            let name = format!("{} {}", cell.condition, cell.client);
            running.push(thread::Builder::new().name(name).spawn_scoped(scope, || cell.run(over))?);
        }
        Ok(running.into_iter().filter_map(|cell| cell.join().ok().flatten()).collect())
    })
}
