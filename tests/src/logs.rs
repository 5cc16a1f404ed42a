//! Output of a process.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::Value;

use crate::waiting::{eventually, until};

/// Lines that a process has written so far, collected by a thread.
#[derive(Clone, Debug, Default)]
pub struct Logs(Arc<Output>);

#[derive(Debug, Default)]
struct Output {
    /// Lines with their times of arrival.
    lines: Mutex<Vec<(Instant, String)>>,
    has_ended: AtomicBool,
}

impl Logs {
    /// Collects lines from `source` until its end.
    pub(crate) fn collect(source: impl Read + Send + 'static) -> Self {
        let logs = Self::default();
        let output = Arc::clone(&logs.0);
        std::thread::spawn(move || {
            for line in BufReader::new(source).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                output.lines.lock().push((Instant::now(), line));
            }
            output.has_ended.store(true, Ordering::Release);
        });
        logs
    }

    pub fn lines(&self) -> Vec<String> {
        self.0.lines.lock().iter().map(|(_, line)| line.clone()).collect()
    }

    /// Returns the lines after the first `count`, with their times of arrival.
    pub(crate) fn lines_after(&self, count: usize) -> Vec<(Instant, String)> {
        self.0.lines.lock().get(count..).unwrap_or_default().to_vec()
    }

    pub fn text(&self) -> String {
        self.lines().join("\n")
    }

    /// Waits for the end of the output, and returns all of it.
    #[track_caller]
    pub(crate) fn whole_text(&self) -> String {
        until("the output ends", || self.0.has_ended.load(Ordering::Acquire));
        self.lines().into_iter().map(|line| line + "\n").collect()
    }

    /// Returns the lines that are JSON objects.
    pub fn records(&self) -> Vec<Value> {
        self.lines().iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Returns the lifecycle events of a session as `(event, reason)`, sorted by event number: two threads
    /// may write their events in either order.
    pub fn lifecycle(&self, session: &str) -> Vec<(String, String)> {
        let text = |record: &Value, field: &str| record[field].as_str().unwrap_or_default().to_owned();
        let mut records = self.records();
        records.retain(|record| record["session"] == session && record["number"].is_u64());
        records.sort_by_key(|record| record["number"].as_u64());
        records.iter().map(|record| (text(record, "message"), text(record, "reason"))).collect()
    }

    #[track_caller]
    pub fn await_line(&self, text: &str) -> String {
        eventually(format!("a log line with {text:?}"), || {
            let lines = self.0.lines.lock();
            lines.iter().map(|(_, line)| line).find(|line| line.contains(text)).cloned()
        })
    }

    pub fn count(&self, text: &str) -> usize {
        self.0.lines.lock().iter().filter(|(_, line)| line.contains(text)).count()
    }
}
