//! `--processes N`: one run, spread over several processes of this program, each with a core of its own.
//!
//! The [`parent`] starts the worker [`processes`] with its own command line and a [`WorkerId`](crate::args::WorkerId) each; all begin
//! at the same instant. Workers send [messages](message) as lines of JSON: log lines, phases, samples, and at the end
//! everything that they have counted and timed. [`rows`] adds up the samples, [`mirror`] shows them. [`worker`] is the other side.

mod message;
mod mirror;
mod parent;
mod processes;
mod rows;
mod worker;

pub(crate) use self::message::LookNumber;
pub(crate) use self::parent::run;
pub(crate) use self::worker::{Parent, send_log, send_phase, send_result, send_sample};
