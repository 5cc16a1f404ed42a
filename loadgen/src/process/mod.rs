//! This process: what it takes, what it may open, and the signals that end it.

mod self_usage;
mod signals;

pub(crate) use self::self_usage::{SelfUsage, reserve_descriptors};
pub(crate) use self::signals::Signals;
