//! Integration with a supervisor, usually systemd: inherited sockets and status notifications.
//!
//! All information is passed in environment variables ([`VARIABLES`]), as described in `sd_listen_fds(3)`,
//! `sd_notify(3)` and `sd_watchdog_enabled(3)`.

mod notify;
mod sockets;
mod variables;

pub use notify::Supervisor;
pub use sockets::{InheritError, InheritedSocket, InheritedSockets};
pub use variables::VARIABLES;
