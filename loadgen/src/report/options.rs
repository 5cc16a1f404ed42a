//! Output options that all scenarios share.

use std::path::PathBuf;

use clap::Args;

use crate::result::Assertion;

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct OutputOptions {
    /// Write the result as JSON to this file, or with "-" to stdout instead of the table
    #[arg(long, value_name = "FILE", help_heading = "Result")]
    pub(crate) json: Option<PathBuf>,
    /// Write index.html with plots, result.json and series.csv to this directory
    #[arg(long, value_name = "DIR", help_heading = "Result")]
    pub(crate) report: Option<PathBuf>,
    /// Exit with 99 unless this holds: the path of a number, one of < <= > >= == !=, and a number, like
    /// 'connect_ms.p99.9<2000'. If the path names its unit, the bound may have one: 'connect_ms.p99.9<2s'
    /// (repeatable)
    #[arg(long = "assert", value_name = "EXPR", help_heading = "Result")]
    pub(crate) assertions: Vec<Assertion>,
    /// End the run as soon as an assertion can no longer hold. Every second, checks the assertions on numbers
    /// that only grow, like 'errors==0'
    #[arg(long, requires = "assertions", help_heading = "Result")]
    pub(crate) abort_on_fail: bool,
    /// Print only errors and warnings
    #[arg(long, help_heading = "Result")]
    pub(crate) quiet: bool,
    /// Write one JSON object per second to stdout, and the result as the last one, instead of bars and table
    #[arg(long, conflicts_with = "quiet", help_heading = "Result")]
    pub(crate) json_lines: bool,
}
