//! Counts and times of a running scenario.
//!
//! A scenario gets its [`Counter`]s, [`Times`] and [`Latency`]s from [`Metrics`], which names them, adds them
//! to the samples of each second, and returns the result. Several threads can create numbers of the same name:
//! these are added up.

mod metrics;
mod phases;
mod stalls;
mod times;

pub(crate) use self::metrics::{Highest, Metrics};
pub(crate) use self::phases::Phases;
pub(crate) use self::stalls::Stalls;
pub(crate) use self::times::{Latency, Times};
pub(crate) use encke_client::{Counter, Counts, Traffic};
