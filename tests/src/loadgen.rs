//! The load generator, run to completion.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

use crate::process::Process;
use crate::{RunningServer, binaries};

/// Report in JSON.
#[derive(Clone, Debug)]
pub struct LoadgenReport(Value);

/// Running scenario. Its process is killed when this is dropped.
#[derive(Debug)]
pub struct LoadgenRun {
    pub process: Process,
    stdout: JoinHandle<Vec<u8>>,
}

impl LoadgenRun {
    /// Starts a scenario against a server.
    ///
    /// # Panics
    /// Panics if the binary does not exist.
    #[must_use]
    #[track_caller]
    pub fn start(scenario: &str, server: &RunningServer, arguments: &[&str]) -> Self {
        let mut child = Command::new(binaries::loadgen())
            .args([scenario, &format!("ws://{}/ws", server.public)])
            .args(arguments)
            .args(["--json", "-"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("loadgen can be started");
        let mut stdout = child.stdout.take().expect("stdout is piped");
        let read = move || {
            let mut bytes = Vec::new();
            let _ = stdout.read_to_end(&mut bytes);
            bytes
        };
        Self { process: Process::new(child), stdout: thread::spawn(read) }
    }

    /// Waits for the scenario to end and returns its report.
    ///
    /// # Panics
    /// Panics if the scenario fails, or does not end within `limit`.
    #[must_use]
    #[track_caller]
    pub fn report(mut self, limit: Duration) -> LoadgenReport {
        let status = self.process.await_exit(limit);
        assert!(status.success(), "{status}");
        let bytes = self.stdout.join().expect("reading does not panic");
        LoadgenReport(serde_json::from_slice(&bytes).expect("the report is JSON"))
    }
}

impl LoadgenReport {
    /// Runs a scenario against a server until the scenario ends by itself.
    ///
    /// # Panics
    /// Panics if the scenario fails.
    #[must_use]
    #[track_caller]
    pub fn run(scenario: &str, server: &RunningServer, arguments: &[&str]) -> Self {
        Self::run_at(&format!("ws://{}/ws", server.public), scenario, arguments)
    }

    /// Runs a scenario against the server at `url` until the scenario ends by itself.
    ///
    /// # Panics
    /// Panics if the scenario fails.
    #[must_use]
    #[track_caller]
    pub fn run_at(url: &str, scenario: &str, arguments: &[&str]) -> Self {
        let output = Command::new(binaries::loadgen())
            .args([scenario, url])
            .args(arguments)
            .args(["--json", "-"])
            .stdin(Stdio::null())
            .output()
            .expect("loadgen can be started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self(serde_json::from_slice(&output.stdout).expect("the report is JSON"))
    }

    /// Returns a numeric field, by its name or by a JSON pointer, which begins with `/`.
    ///
    /// # Panics
    /// Panics if there is no such number.
    #[must_use]
    #[track_caller]
    pub fn number(&self, field: &str) -> f64 {
        let value = if field.starts_with('/') { self.0.pointer(field) } else { self.0.get(field) };
        value.and_then(Value::as_f64).unwrap_or_else(|| panic!("{field} is not a number: {}", self.0))
    }

    /// Asserts that these fields have these values.
    ///
    /// # Panics
    /// Panics if one of them differs.
    #[track_caller]
    pub fn assert(&self, expected: &[(&str, f64)]) {
        for (field, number) in expected {
            assert_eq!(self.number(field), *number, "{field} in {}", self.0);
        }
    }

    /// Asserts that nothing ended before its deadline, within the accuracy of the load generator: on a busy
    /// machine, its measurements are off by as much as it lags.
    ///
    /// # Panics
    /// Panics if something ended early.
    #[track_caller]
    pub fn assert_none_early(&self) {
        /// Tolerance of the load generator's own check.
        const TOLERANCE_MS: f64 = 20.0;
        let (early, lag) = (self.number("early"), self.number("/loadgen/lag_ms_max"));
        assert!(early == 0.0 || lag >= TOLERANCE_MS, "{early} early, {lag} ms of lag: {}", self.0);
    }

    /// Returns the values sampled each second under this name, without empty samples. `kind` is `gauges`,
    /// `counts` or `times`.
    ///
    /// # Panics
    /// Panics if nothing was sampled under this name.
    #[must_use]
    #[track_caller]
    pub fn samples(&self, kind: &str, name: &str) -> Vec<f64> {
        let column = self.0["series"][kind][name].as_array();
        let column = column.unwrap_or_else(|| panic!("there is no {name} in {}", self.0));
        column.iter().filter_map(Value::as_f64).collect()
    }
}
