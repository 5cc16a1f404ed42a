//! Result of one cell.

use std::collections::BTreeMap;
use std::time::Duration;

use encke_tests::{RunningServer, Script};
use serde::Serialize;

use crate::cell::FaultCell;
use crate::condition::LinkCondition;
use crate::ledger::Ledger;

/// Times of the events in a cell, counted from its start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CellTimes {
    /// When the fault began.
    pub(crate) fault_start: Option<Duration>,
    /// When the burst was published.
    pub(crate) burst: Option<Duration>,
    /// When the fault was removed, if it was.
    pub(crate) fault_end: Option<Duration>,
    /// When the last message was published.
    pub(crate) last_publish: Option<Duration>,
    /// When the cell ended.
    pub(crate) end: Duration,
}

/// Result of one cell. Times are in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct CellOutcome {
    /// Name of the link's fault.
    pub link: String,
    /// Name of the client.
    pub client: String,
    /// Number of messages published.
    pub published: usize,
    /// Number of messages that reached the client.
    pub delivered: usize,
    /// Number of messages that the client has not received, but that a gap covers.
    pub covered: usize,
    /// Number of messages that the client has not received, without a gap, although it has received a later
    /// one.
    pub lost: usize,
    /// Number of messages that had not arrived when the cell ended, and that no delivered message follows.
    pub outstanding: usize,
    /// Number of repeated deliveries.
    pub duplicated: usize,
    /// Number of messages that arrived after a later one.
    pub misordered: usize,
    /// Number of messages that differ from the published ones.
    pub garbled: usize,
    /// Whether the fault was removed.
    pub fault_ended: bool,
    /// Time from the end of the fault to the first message after it.
    pub first_s: Option<f64>,
    /// Time from the end of the fault until all messages published by then were delivered or covered by a
    /// gap.
    pub back_s: Option<f64>,
    /// Time from the burst until the client had received all of it.
    pub burst_s: Option<f64>,
    /// Longest time between messages, from the start of the fault.
    pub pause_s: f64,
    /// Number of connections that received a hello.
    pub connections: usize,
    /// Number of sessions that the client had.
    pub sessions: usize,
    /// Number of suspensions by reason.
    pub suspended: BTreeMap<String, u64>,
    /// Standard error of the client.
    pub stderr_text: String,
    /// Lifecycle events in the server's log.
    pub lifecycle: Vec<String>,
}

impl CellOutcome {
    pub(crate) fn of(
        cell: &FaultCell,
        ledger: &Ledger,
        at: CellTimes,
        server: &RunningServer,
        script: &Script,
    ) -> Self {
        let since = |instant: Option<Duration>, until: Option<Duration>| {
            until?.checked_sub(instant?).as_ref().map(Duration::as_secs_f64)
        };
        Self {
            link: cell.condition.to_string(),
            client: cell.client.to_string(),
            published: ledger.published(),
            delivered: ledger.delivered(),
            covered: ledger.covered(),
            lost: ledger.lost(),
            outstanding: ledger.missing() - ledger.lost(),
            duplicated: ledger.duplicated,
            misordered: ledger.misordered,
            garbled: ledger.garbled,
            fault_ended: at.fault_end.is_some(),
            first_s: since(at.fault_end, at.fault_end.and_then(|end| ledger.first_after(end))),
            back_s: recovery_time(cell.condition, ledger, at).as_ref().map(Duration::as_secs_f64),
            burst_s: since(at.burst, at.burst.and_then(|burst| ledger.settled(burst))),
            pause_s: ledger.longest_pause(at.fault_start.unwrap_or_default(), at.end).as_secs_f64(),
            connections: ledger.hellos,
            sessions: ledger.sessions,
            suspended: parse_suspensions(server.admin.metrics().text()),
            stderr_text: script.stderr_text(),
            lifecycle: lifecycle(server),
        }
    }

    /// Returns whether every message arrived once and in order, or was covered by a gap, before the cell
    /// ended.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.lost + self.outstanding + self.duplicated + self.misordered + self.garbled == 0
    }
}

fn recovery_time(condition: LinkCondition, ledger: &Ledger, at: CellTimes) -> Option<Duration> {
    condition.duration()?;
    // Messages published before the end of the fault may also have arrived before it, except those of the
    // last moment.
    Some(ledger.settled(at.fault_end?)?.saturating_sub(at.fault_end?))
}

/// Parses lines such as `encke_session_events_total{event="suspended",reason="..."} N`.
fn parse_suspensions(metrics: &str) -> BTreeMap<String, u64> {
    let of_line = |line: &str| {
        let rest = line.strip_prefix(r#"encke_session_events_total{event="suspended",reason=""#)?;
        let (reason, count) = rest.split_once(r#""} "#)?;
        Some((reason.to_owned(), count.parse().ok().filter(|count| *count > 0)?))
    };
    metrics.lines().filter_map(of_line).collect()
}

/// Returns the timestamp, event and reason of each log record of a session.
fn lifecycle(server: &RunningServer) -> Vec<String> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let records = server.logs.records().into_iter().filter(|record| record["number"].is_u64());
    records
        .map(|record| ["timestamp", "message", "reason"].map(|field| text(&record[field])).join(" "))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspensions_are_read_by_reason() {
        let metrics = "# TYPE encke_session_events counter\n\
                       encke_session_events_total{event=\"opened\",reason=\"connect\"} 3\n\
                       encke_session_events_total{event=\"suspended\",reason=\"pong_timeout\"} 2\n\
                       encke_session_events_total{event=\"suspended\",reason=\"client\"} 0\n";
        assert_eq!(parse_suspensions(metrics), BTreeMap::from([("pong_timeout".to_owned(), 2)]));
    }

    #[test]
    fn recovery_ends_when_all_earlier_messages_are_settled() {
        let s = Duration::from_secs;
        let mut ledger = Ledger::default();
        for number in 1..=3 {
            ledger.publish(s(number));
        }
        let message = |n| serde_json::json!({"message": {"offset": n, "data": {"number": n}}});
        ledger.record(s(1), &message(1));
        let at = CellTimes { fault_end: Some(s(2)), ..CellTimes::default() };
        let cut = LinkCondition::Cut(s(1));
        assert_eq!(recovery_time(cut, &ledger, at), None);
        ledger.record(s(7), &message(2));
        assert_eq!(recovery_time(cut, &ledger, at), Some(s(5)));
        assert_eq!(
            recovery_time(LinkCondition::Slow(8), &ledger, at),
            None,
            "the client was never disconnected"
        );
    }
}
