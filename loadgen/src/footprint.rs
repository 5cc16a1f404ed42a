//! How much memory of this process a connection takes.

use std::cell::Cell;
use std::fs;

/// What was resident before the first connection, and what was when all were open.
#[derive(Debug)]
pub(crate) struct Footprint {
    before: Option<u64>,
    per_connection: Cell<Option<f64>>,
}

impl Footprint {
    pub(crate) fn before() -> Self {
        Self { before: resident_bytes(), per_connection: Cell::new(None) }
    }

    /// Looks once, when the first round of connections is open.
    #[expect(clippy::cast_precision_loss, reason = "no memory comes near 2^53 bytes")]
    pub(crate) fn with(&self, connections: u64) {
        if connections == 0 || self.per_connection.get().is_some() {
            return;
        }
        let grown = resident_bytes().zip(self.before).map(|(now, before)| now.saturating_sub(before));
        self.per_connection.set(grown.map(|bytes| bytes as f64 / connections as f64));
    }

    pub(crate) fn bytes_per_connection(&self) -> Option<f64> {
        self.per_connection.get()
    }
}

/// What is resident of this process. Of the kernel's accounts this is the exact one: others are collected per thread, and
/// may be hundreds of kilobytes behind.
fn resident_bytes() -> Option<u64> {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let kibibytes = rollup.lines().find_map(|line| line.strip_prefix("Rss:"))?.trim().strip_suffix(" kB")?;
    Some(kibibytes.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn looks_when_there_are_connections_and_only_once() {
        let footprint = Footprint::before();
        footprint.with(0);
        assert_eq!(footprint.bytes_per_connection(), None);
        let held = vec![1_u8; 4 << 20];
        footprint.with(1024);
        let first = footprint.bytes_per_connection().expect("the system tells");
        assert!(first > 2048.0, "{first}, with {}", held.len());
        footprint.with(1);
        assert_eq!(footprint.bytes_per_connection(), Some(first));
    }
}
