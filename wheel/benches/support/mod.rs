#![allow(dead_code, reason = "each benchmark uses a part")]

pub(crate) mod args;
pub(crate) mod deadlines;
#[path = "../../../loadgen/src/page/line_plot.rs"]
mod line_plot;
pub(crate) mod machine;
pub(crate) mod plot;
pub(crate) mod random;
pub(crate) mod report;
pub(crate) mod statistics;
pub(crate) mod structures;
pub(crate) mod table;
pub(crate) mod verify;

/// Error that stops a benchmark. Its text is shown to the user.
pub(crate) type BenchError = Box<dyn std::error::Error>;
