//! The traffic of a cell: which messages are published, and when.

use std::time::Duration;

/// Length of a burst in bytes.
const BURST: u32 = 150_000;

/// The traffic of a cell. It fits the slowest link of the table: 100 bytes per second take about 400, as each
/// event needs a separate packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrafficPlan {
    /// Time between messages.
    pub(crate) interval: Duration,
    /// Length of a message's text, in bytes.
    pub(crate) message: u32,
    /// Time from the start to the fault.
    pub(crate) before_fault: Duration,
    /// Time from the fault to the burst.
    pub(crate) until_burst: Duration,
    /// Number of messages in the burst.
    pub(crate) burst: u32,
    /// Length of the text of each message in the burst, in bytes.
    pub(crate) burst_message: u32,
    /// How long messages are published during a fault that lasts until the end.
    pub(crate) during_fault: Duration,
    /// How long messages are published after the end of a fault.
    pub(crate) after_fault: Duration,
    /// Maximum time from the last publish until all messages must have arrived.
    pub(crate) limit: Duration,
    /// Settings of the server.
    pub(crate) settings: &'static [&'static str],
}

impl TrafficPlan {
    /// The traffic of the table's cells.
    pub(crate) const TABLE: Self = Self {
        interval: Duration::from_secs(1),
        message: 100,
        before_fault: Duration::from_secs(5),
        until_burst: Duration::from_secs(2),
        burst: 15,
        burst_message: 10_000,
        during_fault: Duration::from_secs(60),
        after_fault: Duration::from_secs(10),
        limit: Duration::from_secs(300),
        settings: &[],
    };

    /// The traffic of a cell that takes a few seconds, with proportionally shorter timeouts of the server.
    pub(crate) const QUICK: Self = Self {
        interval: Duration::from_millis(100),
        before_fault: Duration::from_millis(500),
        until_burst: Duration::from_millis(200),
        burst: 5,
        during_fault: Duration::from_secs(5),
        after_fault: Duration::from_secs(1),
        limit: Duration::from_secs(60),
        settings: &["session.ping_interval=1500ms", "session.pong_timeout=1s", "session.write_timeout=2s"],
        ..Self::TABLE
    };

    /// Divides the burst into messages of this length.
    pub(crate) fn with_burst_message(self, length: u32) -> Self {
        Self { burst: BURST.div_ceil(length), burst_message: length, ..self }
    }
}
