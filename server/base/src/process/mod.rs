//! Relations of the process to its predecessor and its supervisor.

mod listening;
mod retry;
pub mod systemd;

pub use listening::ListeningProcess;
pub use retry::Retry;
