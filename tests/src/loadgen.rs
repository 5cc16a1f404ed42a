//! The load generator, run to completion.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::process::Process;
use crate::{RunningServer, binaries};

/// Time limit of a scenario that ends by itself. An idle machine needs a tenth of it.
const RUN_TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Clone, Debug)]
pub struct LoadgenReport(Value);

#[derive(Debug)]
pub struct LoadgenRun {
    pub process: Process,
}

impl LoadgenRun {
    pub fn start(scenario: &str, server: &RunningServer, arguments: &[&str]) -> Self {
        Self::start_at(&format!("ws://{}/ws", server.public), scenario, arguments)
    }

    fn start_at(url: &str, scenario: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(binaries::loadgen());
        command.args([scenario, url]).args(arguments).args(["--json", "-"]);
        Self { process: Process::start(&mut command) }
    }

    #[track_caller]
    pub fn report(self, limit: Duration) -> LoadgenReport {
        let output = self.process.output(limit);
        assert!(output.status.success(), "{}", output.stderr);
        LoadgenReport(serde_json::from_str(&output.stdout).expect("the report is JSON"))
    }
}

impl LoadgenReport {
    /// Runs a scenario against a server until the scenario ends by itself.
    pub fn run(scenario: &str, server: &RunningServer, arguments: &[&str]) -> Self {
        LoadgenRun::start(scenario, server, arguments).report(RUN_TIMEOUT)
    }

    /// Runs a scenario against the server at `url` until the scenario ends by itself.
    pub fn run_at(url: &str, scenario: &str, arguments: &[&str]) -> Self {
        LoadgenRun::start_at(url, scenario, arguments).report(RUN_TIMEOUT)
    }

    /// Returns a numeric field, by its name or by a JSON pointer, which begins with `/`.
    #[track_caller]
    pub fn number(&self, field: &str) -> f64 {
        let value = if field.starts_with('/') { self.0.pointer(field) } else { self.0.get(field) };
        value.and_then(Value::as_f64).unwrap_or_else(|| panic!("{field} is not a number: {}", self.0))
    }

    #[track_caller]
    pub fn assert(&self, expected: &[(&str, f64)]) {
        for (field, number) in expected {
            assert_eq!(self.number(field), *number, "{field} in {}", self.0);
        }
    }

    /// Asserts that nothing ended before its deadline, within the accuracy of the load generator: on a busy
    /// machine, its measurements are off by as much as it lags.
    #[track_caller]
    pub fn assert_none_early(&self) {
        /// Tolerance of the load generator's own check.
        const TOLERANCE_MS: f64 = 20.0;
        let (early, lag) = (self.number("early"), self.number("/loadgen/lag_ms_max"));
        assert!(early == 0.0 || lag >= TOLERANCE_MS, "{early} early, {lag} ms of lag: {}", self.0);
    }

    /// Returns the values sampled each second under this name, without empty samples. `kind` is `gauges`,
    /// `counts` or `times`.
    #[track_caller]
    pub fn samples(&self, kind: &str, name: &str) -> Vec<f64> {
        let column = self.0["series"][kind][name].as_array();
        let column = column.unwrap_or_else(|| panic!("there is no {name} in {}", self.0));
        column.iter().filter_map(Value::as_f64).collect()
    }
}
