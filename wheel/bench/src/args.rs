use std::path::PathBuf;

use clap::Args;

#[derive(Args, Debug)]
pub struct Common {
    /// Use small sizes, to check within a few seconds that the benchmark works
    #[arg(long)]
    pub quick: bool,

    /// Measure only these structures, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,

    /// Number of runs; within each run the structures take turns
    #[arg(long)]
    runs: Option<usize>,

    /// Write the results to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write plots of the results to this directory as SVG
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,

    /// Accepted because `cargo bench` passes it to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

impl Common {
    pub fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only.eq_ignore_ascii_case(name))
    }

    pub fn runs(&self, full: usize) -> usize {
        self.runs.unwrap_or(if self.quick { 1 } else { full }).max(1)
    }

    pub fn either<V>(&self, full: V, quick: V) -> V {
        if self.quick { quick } else { full }
    }
}
