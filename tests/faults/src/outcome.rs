//! Result of one cell.

use std::time::Duration;

use encke_tests::{RunningServer, Script};
use serde::Serialize;

use crate::cell::FaultCell;
use crate::ledger::{Ledger, LedgerCounts};

/// Times of the events in a cell, counted from its start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CellTimes {
    pub(crate) fault_start: Option<Duration>,
    /// When the burst was published.
    pub(crate) burst: Option<Duration>,
    /// When the fault was removed, if it was.
    pub(crate) fault_end: Option<Duration>,
    /// When the cell ended.
    pub(crate) end: Duration,
}

/// Result of one cell. Times are in seconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CellOutcome {
    pub(crate) link: String,
    pub(crate) client: String,
    #[serde(flatten)]
    pub(crate) counts: LedgerCounts,
    /// Whether the fault was removed.
    pub(crate) fault_ended: bool,
    /// Time from the end of the fault until all messages published by then were delivered or covered by a
    /// gap.
    pub(crate) back_s: Option<f64>,
    /// Time from the burst until the client had received all of it.
    pub(crate) burst_s: Option<f64>,
    /// Longest time between messages, from the start of the fault.
    pub(crate) pause_s: f64,
    /// Standard error of the client.
    pub(crate) stderr_text: String,
    /// Timestamp, event and reason of each log record of a session.
    pub(crate) lifecycle: Vec<String>,
}

impl CellOutcome {
    pub(crate) fn of(
        cell: &FaultCell,
        ledger: &Ledger,
        at: CellTimes,
        server: &RunningServer,
        script: &Script,
    ) -> Self {
        // Messages published before the end of the fault may also have arrived before it, except those of the
        // last moment.
        let settled_after = |instant: Option<Duration>| {
            Some(ledger.settled(instant?)?.saturating_sub(instant?).as_secs_f64())
        };
        Self {
            link: cell.condition.name.clone(),
            client: cell.client.to_string(),
            counts: ledger.counts(),
            fault_ended: at.fault_end.is_some(),
            back_s: settled_after(at.fault_end),
            burst_s: settled_after(at.burst),
            pause_s: ledger.longest_pause(at.fault_start.unwrap_or_default(), at.end).as_secs_f64(),
            stderr_text: script.stderr_text(),
            lifecycle: lifecycle(server),
        }
    }
}

fn lifecycle(server: &RunningServer) -> Vec<String> {
    let records = server.logs.records().into_iter().filter(|record| record["number"].is_u64());
    let text = |record: &serde_json::Value| {
        ["timestamp", "message", "reason"].map(|field| record[field].as_str().unwrap_or_default()).join(" ")
    };
    records.map(|record| text(&record)).collect()
}
