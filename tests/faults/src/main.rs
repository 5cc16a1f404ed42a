//! Stock clients on bad links: when each recovers, and what it loses. README.md says how to run the cells,
//! each of which has its own server, network namespace and client, so that they run concurrently.

mod cell;
mod client;
mod condition;
mod ledger;
mod outcome;
mod table;
mod traffic;

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use clap::{Parser, ValueEnum};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use cell::FaultCell;
use client::FaultClient;
use condition::LinkCondition;
use outcome::CellOutcome;
use traffic::TrafficPlan;

/// The faults of the table. The slowest is first, because it takes longest.
const TABLE: &str = "8kbit,16kbit,32kbit,64kbit,zero-window-60s,cut-20s,5%,10%,20%";
/// Faults of the same kinds that take a few seconds.
const QUICK: &str = "64kbit,zero-window-5s,cut-3s,10%";

/// Measures when stock clients on bad links recover, and what they lose. Needs root; tests/faults/run
/// installs the other requirements.
///
/// Exits with code 1 if a message was lost without a gap that covers it, arrived twice or out of order, or
/// had not arrived after five minutes. Recovery times are reported, but do not affect the exit code.
#[derive(Debug, Parser)]
#[command(name = "faults")]
struct FaultsArgs {
    /// Only these links, with any number
    #[arg(long, value_name = "LINK", value_delimiter = ',', default_value = TABLE,
          default_value_if("quick", "true", QUICK))]
    only: Vec<LinkCondition>,
    /// Only these clients
    #[arg(long, value_name = "CLIENT", value_delimiter = ',')]
    clients: Vec<FaultClient>,
    /// Run for a few seconds only, with shorter faults and shorter timeouts of the server
    #[arg(long)]
    quick: bool,
    /// Length of each message of the burst, in bytes; the burst has 150 kB in total
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1_000..=150_000))]
    burst_message: Option<u32>,
    /// Additional settings of the server
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Write all results to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl FaultsArgs {
    /// Returns the cells to run, link by link.
    fn cells(&self) -> Vec<FaultCell> {
        let clients = if self.clients.is_empty() { FaultClient::value_variants() } else { &self.clients };
        let mut traffic = if self.quick { TrafficPlan::QUICK } else { TrafficPlan::TABLE };
        if let Some(length) = self.burst_message {
            traffic = traffic.with_burst_message(length);
        }
        let settings: Vec<_> =
            traffic.settings.iter().copied().chain(self.set.iter().map(String::as_str)).collect();
        let pairs = self.only.iter().flat_map(|link| clients.iter().map(move |client| (link, *client)));
        let cell = |(condition, client): (&LinkCondition, FaultClient)| FaultCell {
            condition: condition.clone(),
            client,
            traffic,
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
        };
        pairs.map(cell).collect()
    }
}

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
    writeln!(io::stdout(), "{}", table::by_link_and_client(&outcomes))?;
    let is_success = outcomes.len() == cells.len() && outcomes.iter().all(|it| it.counts.is_exact());
    Ok(if is_success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs all cells concurrently. The result lacks interrupted cells, and those that panicked, whose panics
/// have been printed.
fn run(cells: &[FaultCell], over: &AtomicBool) -> io::Result<Vec<CellOutcome>> {
    thread::scope(|scope| {
        let mut running = Vec::new();
        for cell in cells {
            let name = format!("{} {}", cell.condition.name, cell.client);
            running.push(thread::Builder::new().name(name).spawn_scoped(scope, || cell.run(over))?);
        }
        Ok(running.into_iter().filter_map(|cell| cell.join().ok().flatten()).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(line: &str) -> Vec<FaultCell> {
        FaultsArgs::try_parse_from(line.split(' ')).expect("a valid command line").cells()
    }

    #[test]
    fn the_default_is_the_whole_table() {
        let cells = cells("faults");
        assert_eq!(cells.len(), 9 * 5);
        assert!(cells.iter().all(|cell| cell.settings.is_empty()));
    }

    #[test]
    fn links_clients_and_settings_can_be_chosen() {
        let cells = cells("faults --only cut-90s,5% --clients curl --quick --set a=1 --burst-message 50000");
        let links: Vec<_> = cells.iter().map(|cell| (&*cell.condition.name, cell.client)).collect();
        assert_eq!(links, [("cut-90s", FaultClient::Curl), ("5%", FaultClient::Curl)]);
        assert_eq!(cells[0].settings.last().map(|setting| &**setting), Some("a=1"));
        assert_eq!((cells[0].traffic.burst, cells[0].traffic.burst_message), (3, 50_000));
    }
}
