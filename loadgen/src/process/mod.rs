//! Processes: resource usage of any process, limits and signals of this one, and a server that it starts as a
//! child.

mod kernel;
mod self_usage;
mod service;
mod signals;

pub(crate) use self::kernel::{Reading, ReadingError, SampledProcess};
pub(crate) use self::self_usage::{SelfUsage, UsageSummary, reserve_descriptors};
pub(crate) use self::service::{Service, run_shell};
pub(crate) use self::signals::Signals;
