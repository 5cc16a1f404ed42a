//! Runs the binary and parses its output.

use std::fs;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Time limit for one run. No test takes nearly that long.
const RUN_LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Parses the JSON that `--json -` printed.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error} in {}{}", self.stdout, self.stderr))
    }

    pub(crate) fn assert_code(&self, code: i32) {
        assert_eq!(self.code, code, "stderr: {}", self.stderr);
    }
}

/// Returns a command that runs loadgen with `words`, which are separated by spaces.
pub(crate) fn command(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadgen"));
    command.args(words.split_whitespace());
    command
}

pub(crate) async fn loadgen(words: &str) -> Ended {
    finish(command(words)).await
}

pub(crate) async fn finish(mut command: Command) -> Ended {
    let output = timeout(RUN_LIMIT, spawn_blocking(move || command.output())).await;
    ended(
        &output.expect("the run ends in time").expect("the task does not panic").expect("the binary starts"),
    )
}

/// Runs a mix with this plan. `words` are its other arguments.
pub(crate) async fn mix(words: &str, plan: &str) -> Ended {
    let directory = tempfile::tempdir().expect("a temporary file can be written");
    let file = directory.path().join("plan.toml");
    fs::write(&file, plan).expect("a temporary file can be written");
    let mut command = command(&format!("mix {words} --json - --plan"));
    command.arg(&file);
    finish(command).await
}

pub(crate) fn ended(output: &Output) -> Ended {
    Ended {
        code: output.status.code().expect("the process is not killed by a signal"),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Returns a number of a report. Panics if it is missing.
pub(crate) fn number(json: &Value, pointer: &str) -> f64 {
    json.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number {pointer} in {json:#}"))
}

/// Asserts that no close was early, unless loadgen lagged: on a busy machine it reads late, and its
/// measurements are off by the lag.
pub(crate) fn assert_none_early(json: &Value) {
    const TOLERANCE_MS: f64 = 20.0;
    let [early, lag] = ["/early", "/loadgen/lag_ms_max"].map(|path| number(json, path));
    assert!(early == 0.0 || lag >= TOLERANCE_MS, "{early} early, {lag} ms of lag: {json:#}");
}
