//! What came of one cell.

use std::collections::BTreeMap;
use std::time::Duration;

use encke_tests::{RunningServer, Script};
use serde::Serialize;

use crate::cell::Cell;
use crate::condition::Condition;
use crate::ledger::Ledger;

/// When things were done, counted from the start of the cell.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Instants {
    /// The fault began.
    pub(crate) fault: Option<Duration>,
    /// The burst was published.
    pub(crate) burst: Option<Duration>,
    /// The fault was mended, if it was.
    pub(crate) mended: Option<Duration>,
    /// The last message was published.
    pub(crate) silent: Option<Duration>,
    /// The cell ended.
    pub(crate) end: Duration,
}

/// What came of one cell. Times are in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The link.
    pub link: String,
    /// The client.
    pub client: String,
    /// Messages that were published,
    pub published: usize,
    /// that have reached the client,
    pub delivered: usize,
    /// of which a gap has told the client, and which it does not have,
    pub told: usize,
    /// and of which it was not told, though it has a later one.
    pub lost: usize,
    /// Messages that had not come yet when the cell ended: the client has none that is later.
    pub outstanding: usize,
    /// Messages that came twice.
    pub doubled: usize,
    /// Messages that came after a later one.
    pub misordered: usize,
    /// Messages that were not what was published.
    pub garbled: usize,
    /// Whether the fault was mended.
    pub mended: bool,
    /// From the mend to the first message afterwards.
    pub first_s: Option<f64>,
    /// From the mend until the client had all that had been published by then, and was told of the rest.
    pub back_s: Option<f64>,
    /// From the burst until the client had it.
    pub burst_s: Option<f64>,
    /// The longest time from one message to the next, from the fault on.
    pub pause_s: f64,
    /// Connections that were greeted.
    pub connections: usize,
    /// Sessions that the client had.
    pub sessions: usize,
    /// How often its sessions were suspended, by reason.
    pub suspended: BTreeMap<String, u64>,
    /// What the client has written to standard error.
    pub complaints: String,
    /// What the server has logged of its sessions.
    pub lifecycle: Vec<String>,
}

impl Outcome {
    pub(crate) fn of(
        cell: &Cell,
        ledger: &Ledger,
        at: Instants,
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
            told: ledger.told(),
            lost: ledger.lost(),
            outstanding: ledger.missing() - ledger.lost(),
            doubled: ledger.doubled,
            misordered: ledger.misordered,
            garbled: ledger.garbled,
            mended: at.mended.is_some(),
            first_s: since(at.mended, at.mended.and_then(|mended| ledger.first_after(mended))),
            back_s: back(cell.condition, ledger, at).as_ref().map(Duration::as_secs_f64),
            burst_s: since(at.burst, at.burst.and_then(|burst| ledger.settled(burst))),
            pause_s: ledger.longest_pause(at.fault.unwrap_or_default(), at.end).as_secs_f64(),
            connections: ledger.greetings,
            sessions: ledger.sessions,
            suspended: suspensions(server.admin.metrics().text()),
            complaints: script.complaints(),
            lifecycle: lifecycle(server),
        }
    }

    /// Whether everything came once and in order, or was told, before the cell ended.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.lost + self.outstanding + self.doubled + self.misordered + self.garbled == 0
    }
}

fn back(condition: Condition, ledger: &Ledger, at: Instants) -> Option<Duration> {
    condition.lasts()?;
    // What was published before the mend may all have come before it, but for an instant.
    Some(ledger.settled(at.mended?)?.saturating_sub(at.mended?))
}

/// Reads `encke_session_events_total{event="suspended",reason="..."} N`.
fn suspensions(metrics: &str) -> BTreeMap<String, u64> {
    let of_line = |line: &str| {
        let rest = line.strip_prefix(r#"encke_session_events_total{event="suspended",reason=""#)?;
        let (reason, count) = rest.split_once(r#""} "#)?;
        Some((reason.to_owned(), count.parse().ok().filter(|count| *count > 0)?))
    };
    metrics.lines().filter_map(of_line).collect()
}

/// When, what, why.
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
        assert_eq!(suspensions(metrics), BTreeMap::from([("pong_timeout".to_owned(), 2)]));
    }

    #[test]
    fn a_client_is_back_once_it_has_what_was_published_before_the_mend() {
        let s = Duration::from_secs;
        let mut ledger = Ledger::default();
        for number in 1..=3 {
            ledger.publish(s(number));
        }
        let message = |n| serde_json::json!({"message": {"offset": n, "data": {"number": n}}});
        ledger.hear(s(1), &message(1));
        let at = Instants { mended: Some(s(2)), ..Instants::default() };
        let cut = Condition::Cut(s(1));
        assert_eq!(back(cut, &ledger, at), None);
        ledger.hear(s(7), &message(2));
        assert_eq!(back(cut, &ledger, at), Some(s(5)));
        assert_eq!(back(Condition::Slow(8), &ledger, at), None, "it never left");
    }
}
