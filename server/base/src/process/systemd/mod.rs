//! Integration with a supervisor, usually systemd: inherited sockets and status notifications.
//!
//! All information is passed in environment variables ([`VARIABLES`]), as described in `sd_listen_fds(3)`,
//! `sd_notify(3)` and `sd_watchdog_enabled(3)`.

mod notify;
mod sockets;

use std::process;

pub use notify::Supervisor;
pub use sockets::{InheritError, InheritedSocket, InheritedSockets};

/// Variables meant for this process alone, which child processes must not inherit.
pub const VARIABLES: [&str; 7] = [
    "LISTEN_PID",
    "LISTEN_PIDFDID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// Whether variables for the process `pid` apply to this process. Without a `pid` they apply to every
/// process.
fn applies_to_us(pid: Option<&str>) -> bool {
    pid.is_none_or(|pid| pid.is_empty() || pid.parse() == Ok(process::id()))
}
