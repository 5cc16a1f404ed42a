//! Runs the [model](encke_nodes) with many seeds.
//!
//! ```sh
//! cargo run --release -p encke-nodes -- --count 100000         # a campaign
//! cargo run --release -p encke-nodes -- --seed 17              # one schedule; prints its events if it fails
//! cargo run --release -p encke-nodes -- --bug no-fence         # must fail
//! ```

use std::process::ExitCode;

use clap::Parser;
use encke_nodes::{Bug, Violation, World, campaign};

/// Runs seeded schedules of nodes, clients and faults, and checks their invariants.
#[derive(Debug, Parser)]
struct Arguments {
    /// Run only this seed
    #[arg(long)]
    seed: Option<u64>,
    /// First seed of a campaign (default: random)
    #[arg(long, conflicts_with = "seed")]
    from: Option<u64>,
    /// Number of schedules
    #[arg(long, default_value_t = 10_000)]
    count: u64,
    /// Number of threads
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Add a bug to the model
    #[arg(long)]
    bug: Option<Bug>,
}

#[expect(clippy::print_stdout, reason = "output of the command")]
fn main() -> ExitCode {
    let Arguments { seed, from, count, jobs, bug } = Arguments::parse();
    if let Some(seed) = seed {
        return run_traced(seed, bug);
    }
    let from = from.unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let (counts, failed) = campaign(from, count, jobs, bug);
    println!("seeds from {from} on: {counts}");
    let Some(seed) = failed else { return ExitCode::SUCCESS };
    println!("seed {seed} fails: run it with --seed");
    ExitCode::FAILURE
}

#[expect(clippy::print_stdout, reason = "output of the command")]
fn run_traced(seed: u64, bug: Option<Bug>) -> ExitCode {
    let mut world = World::new(seed, bug, true);
    let Err(Violation(what)) = world.run() else {
        println!("every invariant holds");
        return ExitCode::SUCCESS;
    };
    let trace = world.trace.unwrap_or_default();
    trace.iter().for_each(|line| println!("{line}"));
    println!("seed {seed} fails: {what}");
    ExitCode::FAILURE
}
