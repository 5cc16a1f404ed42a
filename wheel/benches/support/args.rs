//! The arguments that all benchmarks take.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct Common {
    /// Small sizes: a few seconds, to see that it works
    #[arg(long)]
    pub(crate) quick: bool,

    /// Only these structures, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,

    /// How many times everything is measured, structure by structure within each run
    #[arg(long)]
    runs: Option<usize>,

    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Draw the figures into this directory as SVG
    #[arg(long, value_name = "DIR")]
    pub(crate) plot: Option<PathBuf>,

    /// What `cargo bench` says to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

impl Common {
    /// Whether a structure is to be measured.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only.eq_ignore_ascii_case(name))
    }

    pub(crate) fn runs(&self, full: usize) -> usize {
        self.runs.unwrap_or(if self.quick { 1 } else { full }).max(1)
    }

    /// The usual value, or the smaller one of a quick run.
    pub(crate) fn either<V>(&self, full: V, quick: V) -> V {
        if self.quick { quick } else { full }
    }
}
