//! Logs of channels, and of patterns that match some of the channels.

use rand::RngExt;
use rand::rngs::SmallRng;

use crate::session::outbox::{LogBounds, LogHandle, LogPosition};

/// A log handle for the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) struct LogRef {
    index: usize,
    /// The channels whose messages are in the log, one bit each.
    channels: u32,
}

impl LogHandle for LogRef {
    fn log(&self) -> u64 {
        self.index as u64
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.channels & other.channels != 0
    }
}

#[derive(Debug)]
struct ModelLog {
    bounds: LogBounds,
    channels: u32,
    /// Every message ever published to the log, beginning with offset 1.
    messages: Vec<usize>,
}

#[derive(Debug)]
struct LoggedMessage {
    channel: usize,
    places: Vec<LogPosition>,
}

/// All logs. Logs of channels come first, followed by logs of patterns.
#[derive(Debug)]
pub(in crate::session) struct ModelLogs {
    logs: Vec<ModelLog>,
    pub(in crate::session) channels: usize,
    messages: Vec<LoggedMessage>,
}

impl ModelLogs {
    pub(in crate::session) fn new(rng: &mut SmallRng) -> Self {
        let channels = rng.random_range(1..=3);
        let patterns = if rng.random_bool(0.4) { 0 } else { rng.random_range(1..=3) };
        let of_channels = (0..channels).map(|channel| 1 << channel);
        let of_patterns: Vec<u32> = (0..patterns).map(|_| rng.random_range(1..1 << channels)).collect();
        let logs = of_channels.chain(of_patterns).map(|channels| ModelLog {
            bounds: LogBounds { first: 1, last: 0 },
            channels,
            messages: Vec::new(),
        });
        Self { logs: logs.collect(), channels, messages: Vec::new() }
    }

    /// Publishes a message to all logs of the channel before any of them is read.
    pub(in crate::session) fn publish(&mut self, channel: usize) {
        let mut places = Vec::new();
        for (number, log) in (0..).zip(&mut self.logs).filter(|(_, log)| log.channels & 1 << channel != 0) {
            log.bounds.last += 1;
            log.messages.push(self.messages.len());
            places.push(LogPosition { log: number, offset: log.bounds.last });
        }
        self.messages.push(LoggedMessage { channel, places });
    }

    /// Drops some of the oldest messages. Returns whether there were any.
    pub(in crate::session) fn trim(&mut self, log: usize, rng: &mut SmallRng) -> bool {
        let bounds = &mut self.logs[log].bounds;
        let any = bounds.first <= bounds.last;
        if any {
            bounds.first = rng.random_range(bounds.first + 1..=bounds.last + 1);
        }
        any
    }

    pub(in crate::session) fn len(&self) -> usize {
        self.logs.len()
    }

    pub(in crate::session) fn has_patterns(&self) -> bool {
        self.logs.len() > self.channels
    }

    pub(in crate::session) fn get(&self, log: usize) -> LogRef {
        LogRef { index: log, channels: self.logs[log].channels }
    }

    pub(in crate::session) fn bounds(&self, log: usize) -> LogBounds {
        self.logs[log].bounds
    }

    pub(in crate::session) fn message(&self, log: usize, offset: u64) -> usize {
        self.logs[log].messages[usize::try_from(offset).expect("small") - 1]
    }

    pub(in crate::session) fn channel(&self, message: usize) -> usize {
        self.messages[message].channel
    }

    pub(in crate::session) fn places(&self, log: usize, offset: u64) -> &[LogPosition] {
        &self.messages[self.message(log, offset)].places
    }
}
