//! When what is published, and for how long.

use std::time::Duration;

/// The traffic of a cell. It fits the slowest link of the table: 100 bytes a second are some 400 as an event in a packet of its own.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// From one message to the next.
    pub interval: Duration,
    /// The length of a message's text, in bytes.
    pub message: usize,
    /// From the start to the fault.
    pub healthy: Duration,
    /// From the fault to a burst.
    pub until_burst: Duration,
    /// How many messages the burst has,
    pub burst: usize,
    /// and the length of the text of each, in bytes.
    pub burst_message: usize,
    /// How long messages are published under a fault that lasts to the end.
    pub lasting: Duration,
    /// How long they are published after a fault that is mended.
    pub mended: Duration,
    /// How long after the last of them everything must have come.
    pub limit: Duration,
}

impl Pace {
    /// Of the table.
    #[must_use]
    pub fn table() -> Self {
        Self {
            interval: Duration::from_secs(1),
            message: 100,
            healthy: Duration::from_secs(5),
            until_burst: Duration::from_secs(2),
            burst: 15,
            burst_message: 10_000,
            lasting: Duration::from_secs(60),
            mended: Duration::from_secs(10),
            limit: Duration::from_secs(300),
        }
    }

    /// Of a cell that takes a few seconds. Its server should be as quick.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            interval: Duration::from_millis(100),
            healthy: Duration::from_millis(500),
            until_burst: Duration::from_millis(200),
            burst: 5,
            lasting: Duration::from_secs(5),
            mended: Duration::from_secs(1),
            limit: Duration::from_secs(60),
            ..Self::table()
        }
    }

    /// Settings of a server for such cells: its timeouts are in proportion.
    pub const QUICK_SETTINGS: [&str; 3] =
        ["session.ping_interval=1500ms", "session.pong_timeout=1s", "session.write_timeout=2s"];
}
