//! `--processes N`: one run, spread over several processes of this program, each with a core of its own.
//!
//! The [`parent`] starts [`processes`] with its own command line and a [`WorkerId`](crate::args::WorkerId) to play, and has all of them begin at one instant.
//! They speak [lines](mod@line) of JSON: what goes wrong, a sample each second, and in the end all that they have counted and
//! timed. [`rows`] adds up the samples exactly, [`merge`] the rest. [`worker`] is their side of it.

mod line;
mod merge;
mod mirror;
mod parent;
mod processes;
mod rows;
mod worker;

pub(crate) use self::parent::run;
pub(crate) use self::worker::{Parent, send_log, send_measured, send_sample};
