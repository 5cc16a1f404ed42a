//! The whole server under one seeded scheduler, on one thread and in virtual time.
//!
//! ```sh
//! cargo run --release -p encke-sim -- --minutes 1            # as many scenarios as fit into a minute
//! cargo run --release -p encke-sim -- --hours 1 --jobs 2     # a campaign
//! cargo run --release -p encke-sim -- --seed 17              # one scenario, with the end of its trace
//! ```

mod campaign;
mod client;
mod engine_delays;
mod fault;
mod lifecycle;
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
    /// Run this seed alone.
    #[arg(long)]
    seed: Option<u64>,
    /// The first seed of a campaign. Without it, a random one.
    #[arg(long, conflicts_with = "seed")]
    from: Option<u64>,
    /// How long a campaign runs.
    #[arg(long, conflicts_with_all = ["seed", "hours"])]
    minutes: Option<f64>,
    /// How long a campaign runs.
    #[arg(long, conflicts_with = "seed")]
    hours: Option<f64>,
    /// Scenarios at a time.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// How many steps of a scenario things may happen in, before everyone catches up and leaves. Without it, as many as it takes.
    #[arg(long)]
    steps: Option<u64>,
    /// Do not look for a smaller scenario that fails in the same way.
    #[arg(long)]
    no_shrinking: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    campaign::quiet_panics();
    let bounds = Bounds { steps: arguments.steps, shrinks: !arguments.no_shrinking };
    if let Some(seed) = arguments.seed {
        return campaign::one(seed, bounds);
    }
    let minutes = arguments.hours.map_or(arguments.minutes.unwrap_or(1.0), |hours| hours * 60.0);
    let Ok(length) = Duration::try_from_secs_f64(minutes * 60.0) else {
        return ExitCode::FAILURE;
    };
    let from = arguments.from.unwrap_or_else(|| u64::from(rand::random::<u32>()));
    campaign::run(from, length, arguments.jobs.max(1), bounds)
}
