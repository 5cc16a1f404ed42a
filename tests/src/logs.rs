//! Standard error of a process.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use crate::waiting::eventually;

/// Lines that a process has written so far, collected by a thread.
#[derive(Clone, Debug, Default)]
pub struct Logs {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Logs {
    /// Collects lines from `source` until its end.
    pub(crate) fn collect(source: impl Read + Send + 'static) -> Self {
        let logs = Self::default();
        let lines = Arc::clone(&logs.lines);
        std::thread::spawn(move || {
            for line in BufReader::new(source).split(b'\n').map_while(Result::ok) {
                lines.lock().push(String::from_utf8_lossy(&line).into_owned());
            }
        });
        logs
    }

    /// Returns all lines so far.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().clone()
    }

    /// Returns all lines so far as one text.
    #[must_use]
    pub fn text(&self) -> String {
        self.lines().join("\n")
    }

    /// Returns the lines that are JSON objects.
    #[must_use]
    pub fn records(&self) -> Vec<Value> {
        self.lines().iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Returns the lifecycle events of a session as `(event, reason)`, sorted by event number: two threads
    /// may write their events in either order.
    #[must_use]
    pub fn lifecycle(&self, session: &str) -> Vec<(String, String)> {
        let text = |record: &Value, field: &str| record[field].as_str().unwrap_or_default().to_owned();
        let mut records = self.records();
        records.retain(|record| record["session"] == session && record["number"].is_u64());
        records.sort_by_key(|record| record["number"].as_u64());
        records.iter().map(|record| (text(record, "message"), text(record, "reason"))).collect()
    }

    /// Waits for exactly these lifecycle events of a session.
    ///
    /// # Panics
    /// Panics if other events appear, or if some are missing.
    #[track_caller]
    pub fn await_lifecycle(&self, session: &str, expected: &[(&str, &str)]) {
        let mut seen = Vec::new();
        eventually(format!("the lifecycle {expected:?}"), || {
            seen = self.lifecycle(session);
            (seen.len() >= expected.len()).then_some(())
        });
        let seen: Vec<_> = seen.iter().map(|(event, reason)| (&**event, &**reason)).collect();
        assert_eq!(seen, expected);
    }

    /// Waits for a line that contains `text`.
    #[track_caller]
    pub fn await_line(&self, text: &str) -> String {
        eventually(format!("a log line with {text:?}"), || {
            self.lines.lock().iter().find(|line| line.contains(text)).cloned()
        })
    }

    /// Returns the number of lines that contain `text`.
    #[must_use]
    pub fn count(&self, text: &str) -> usize {
        self.lines.lock().iter().filter(|line| line.contains(text)).count()
    }
}
