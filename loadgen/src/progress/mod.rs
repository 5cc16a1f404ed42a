//! Output while a scenario runs: [`log`] lines and a [`live`] view.

mod live;
mod log;

pub(crate) use self::live::{Bar, draw, print_sample};
pub(crate) use self::log::ProgressLog;
