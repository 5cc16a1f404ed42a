//! `--processes N`: one run, spread over several processes of this program, each with a core of its own.
//!
//! The [`parent`] starts [`children`] with its own command line and a [`part`] to play, and has all of them begin at one instant.
//! They speak [lines](mod@line) of JSON: what goes wrong, a sample each second, and in the end all that they have counted and
//! timed. [`rows`] adds up the samples exactly, [`merge`] the rest. [`child`] is their side of it.

mod child;
mod children;
mod line;
mod merge;
mod mirror;
mod parent;
mod part;
mod rows;

use clap::Args;

pub(crate) use self::child::{Parent, tell_log, tell_measured, tell_sample};
pub(crate) use self::parent::run;
pub(crate) use self::part::Part;

#[derive(Clone, Debug, Args)]
pub(crate) struct Processes {
    /// Spread the connections over this many processes, each with a core of its own: counts and histograms are added up
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) processes: u32,
    /// What one of them is told
    #[arg(long, hide = true)]
    pub(crate) part: Option<Part>,
}
