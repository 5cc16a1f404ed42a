//! The load generator, run to its end.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{RunningServer, binaries};

/// What it reports.
#[derive(Clone, Debug)]
pub struct Report(Value);

impl Report {
    /// Runs a scenario, which ends by itself, against a server.
    ///
    /// # Panics
    /// When it fails.
    #[must_use]
    #[track_caller]
    pub fn of(scenario: &str, server: &RunningServer, arguments: &[&str]) -> Self {
        Self::at(&format!("ws://{}/ws", server.public), scenario, arguments)
    }

    /// The same against the server at a URL.
    ///
    /// # Panics
    /// When it fails.
    #[must_use]
    #[track_caller]
    pub fn at(url: &str, scenario: &str, arguments: &[&str]) -> Self {
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

    /// A field of it.
    ///
    /// # Panics
    /// When there is no such number.
    #[must_use]
    #[track_caller]
    pub fn number(&self, field: &str) -> f64 {
        self.0[field].as_f64().unwrap_or_else(|| panic!("{field} is no number: {}", self.0))
    }
}
