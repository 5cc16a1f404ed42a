//! `--processes N`: one run, spread over several processes of this program, each with a core of its own.
//!
//! The [`parent`] starts [`children`] with its own command line and a [`Part`](crate::args::Part) to play, and has all of them begin at one instant.
//! They speak [lines](mod@line) of JSON: what goes wrong, a sample each second, and in the end all that they have counted and
//! timed. [`rows`] adds up the samples exactly, [`merge`] the rest. [`child`] is their side of it.

mod child;
mod children;
mod line;
mod merge;
mod mirror;
mod parent;
mod rows;

pub(crate) use self::child::{Parent, tell_log, tell_measured, tell_sample};
pub(crate) use self::parent::run;
