//! What a supervisor, systemd as a rule, hands the process at its start, and what it wants to be told.
//!
//! Everything of it comes by variables of the environment ([`VARIABLES`]), as in `sd_listen_fds(3)`, `sd_notify(3)` and
//! `sd_watchdog_enabled(3)`.

mod notify;
mod sockets;

use std::process;

pub use notify::Supervisor;
pub use sockets::{InheritError, InheritedSocket, InheritedSockets};

/// What is meant for this process alone: its children must not see it.
pub const VARIABLES: [&str; 7] = [
    "LISTEN_PID",
    "LISTEN_PIDFDID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// Whether what is said for the process of this number is said for us. Without a number, it is for whoever reads it.
fn is_for_us(pid: Option<&str>) -> bool {
    pid.is_none_or(|pid| pid.is_empty() || pid.parse() == Ok(process::id()))
}
