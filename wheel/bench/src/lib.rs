//! Code that the benchmarks of the timing wheel share: arguments, structures to measure, tables, reports, plots.

pub mod args;
pub mod deadlines;
#[path = "../../../loadgen/src/page/line_plot.rs"]
mod line_plot;
pub mod machine;
pub mod plot;
pub mod random;
pub mod report;
pub mod statistics;
pub mod structures;
pub mod table;
pub mod verify;

/// Error that stops a benchmark. Its text is shown to the user.
pub type BenchError = Box<dyn std::error::Error>;
