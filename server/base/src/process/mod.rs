//! Relations of the process to its predecessor and its supervisor.

mod retry;
pub mod systemd;

pub use retry::Retry;
