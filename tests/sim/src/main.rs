//! Simulates the whole server under one seeded scheduler, on one thread and in virtual time.
//!
//! ```sh
//! cargo run --release -p encke-sim -- --minutes 1            # as many scenarios as fit into a minute
//! cargo run --release -p encke-sim -- --minutes 60 --jobs 2   # a campaign
//! cargo run --release -p encke-sim -- --seed 17              # one scenario; prints the end of its trace if it fails
//! ```

mod backend;
mod campaign;
mod client;
mod engine_delays;
mod fault;
mod lifecycle;
mod namespaces;
mod notices;
mod outcome;
mod redis;
mod scenario;
mod schedule;
mod shrink;
mod tasks;
mod trace;
mod truth;
mod wire;
mod world;

use std::process::ExitCode;
use std::time::Duration;

use campaign::Bounds;
use clap::Parser;

/// Runs the server in seeded simulations and checks its invariants.
#[derive(Debug, Parser)]
struct Arguments {
    /// Run only this seed
    #[arg(long)]
    seed: Option<u64>,
    /// First seed of a campaign (default: random)
    #[arg(long, conflicts_with = "seed")]
    from: Option<u64>,
    /// Length of a campaign in minutes
    #[arg(long, default_value_t = 1)]
    minutes: u64,
    /// Run this many scenarios instead of as many as fit into `--minutes`
    #[arg(long)]
    count: Option<u64>,
    /// Number of scenarios run in parallel
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Number of steps after which a scenario ends its faults and lets clients catch up and leave (default:
    /// no limit)
    #[arg(long)]
    steps: Option<u64>,
    /// Do not shrink a failing scenario
    #[arg(long)]
    no_shrinking: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    campaign::record_panics();
    let bounds = Bounds { steps: arguments.steps, shrinks: !arguments.no_shrinking };
    if let Some(seed) = arguments.seed {
        return campaign::run_seed(seed, bounds);
    }
    let from = arguments.from.unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let (seeds, length) = match arguments.count {
        Some(count) => (from..from.saturating_add(count), Duration::MAX),
        None => (from..u64::MAX, Duration::from_secs(arguments.minutes.saturating_mul(60))),
    };
    campaign::run(seeds, length, arguments.jobs.max(1), bounds)
}
