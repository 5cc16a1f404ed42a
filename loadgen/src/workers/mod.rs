//! `--processes N`: one run spread over several processes of this program, so that it can use several cores.
//!
//! The [`parent`] starts the worker [`processes`] with its own command line and a
//! [`WorkerId`](crate::args::WorkerId) each. All workers begin at the same time. They send
//! [messages](message) as lines of JSON: log lines, phases, samples, and at the end everything that they have
//! counted and timed. [`rows`] adds up the samples, and [`mirror`] makes them visible in the parent.
//! [`worker`] is the worker's side.

mod message;
mod mirror;
mod parent;
mod processes;
mod rows;
mod worker;

pub(crate) use self::message::SampleNumber;
pub(crate) use self::parent::run;
pub(crate) use self::worker::{Parent, send_log, send_phase, send_result, send_sample};
