//! The traffic of a cell: which messages are published, and when.

use std::time::Duration;

/// The traffic of a cell. It fits the slowest link of the table: 100 bytes per second take about 400, as each
/// event needs a separate packet.
#[derive(Clone, Copy, Debug)]
pub struct TrafficPlan {
    /// Time between messages.
    pub interval: Duration,
    /// Length of a message's text, in bytes.
    pub message: usize,
    /// Time from the start to the fault.
    pub before_fault: Duration,
    /// Time from the fault to the burst.
    pub until_burst: Duration,
    /// Number of messages in the burst.
    pub burst: usize,
    /// Length of the text of each message in the burst, in bytes.
    pub burst_message: usize,
    /// How long messages are published during a fault that lasts until the end.
    pub during_fault: Duration,
    /// How long messages are published after the end of a fault.
    pub after_fault: Duration,
    /// Maximum time from the last publish until all messages must have arrived.
    pub limit: Duration,
}

impl TrafficPlan {
    /// Returns the traffic of the table's cells.
    #[must_use]
    pub fn table() -> Self {
        Self {
            interval: Duration::from_secs(1),
            message: 100,
            before_fault: Duration::from_secs(5),
            until_burst: Duration::from_secs(2),
            burst: 15,
            burst_message: 10_000,
            during_fault: Duration::from_secs(60),
            after_fault: Duration::from_secs(10),
            limit: Duration::from_secs(300),
        }
    }

    /// Returns the traffic of a cell that takes a few seconds. Its server needs
    /// [`QUICK_SETTINGS`](Self::QUICK_SETTINGS).
    #[must_use]
    pub fn quick() -> Self {
        Self {
            interval: Duration::from_millis(100),
            before_fault: Duration::from_millis(500),
            until_burst: Duration::from_millis(200),
            burst: 5,
            during_fault: Duration::from_secs(5),
            after_fault: Duration::from_secs(1),
            limit: Duration::from_secs(60),
            ..Self::table()
        }
    }

    /// Settings of the server for quick cells, with proportionally shorter timeouts.
    pub const QUICK_SETTINGS: [&str; 3] =
        ["session.ping_interval=1500ms", "session.pong_timeout=1s", "session.write_timeout=2s"];
}
