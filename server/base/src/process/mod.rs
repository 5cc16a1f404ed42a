//! Relations to other processes: the predecessor, the supervisor, and the process that listens on an address.

mod listening;
mod retry;
pub mod systemd;

pub use listening::ListeningProcess;
pub use retry::Retry;
