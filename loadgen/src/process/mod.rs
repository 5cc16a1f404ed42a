//! Processes: what the kernel says of any, and what this one takes, what it may open, and the signals that end it; and a server
//! that it starts itself.

mod kernel;
mod self_usage;
mod service;
mod signals;

pub(crate) use self::kernel::{NoReading, Process, Reading};
pub(crate) use self::self_usage::{SelfUsage, UsageSummary, reserve_descriptors};
pub(crate) use self::service::{Service, run_shell};
pub(crate) use self::signals::Signals;
