use std::process;

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
pub(super) fn applies_to_us(pid: Option<&str>) -> bool {
    pid.is_none_or(|pid| pid.is_empty() || pid.parse() == Ok(process::id()))
}
