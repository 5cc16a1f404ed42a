/// The owner's handle of a log.
pub trait LogHandle {
    /// Number of the log, which is never reused.
    fn log(&self) -> u64;

    /// Whether a message can be in both logs.
    fn overlaps(&self, other: &Self) -> bool;
}

/// A handle for an outbox with a single log.
impl LogHandle for () {
    fn log(&self) -> u64 {
        0
    }

    fn overlaps(&self, (): &Self) -> bool {
        false
    }
}

/// Position of a message in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// Number of the log.
    pub log: u64,
    /// Offset of the message in that log.
    pub offset: u64,
}
