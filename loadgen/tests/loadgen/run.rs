//! Runs the binary and reads what it reports.

use std::fs;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// No test takes nearly as long.
const BOUND: Duration = Duration::from_secs(60);

pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The JSON that `--json -` wrote.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error} in {}{}", self.stdout, self.stderr))
    }

    pub(crate) fn assert_code(&self, code: i32) {
        assert_eq!(self.code, code, "stderr: {}", self.stderr);
    }
}

/// `words` are separated by blanks.
pub(crate) fn command(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadgen"));
    command.args(words.split_whitespace());
    command
}

pub(crate) async fn loadgen(words: &str) -> Ended {
    finish(command(words)).await
}

pub(crate) async fn finish(mut command: Command) -> Ended {
    let output = timeout(BOUND, spawn_blocking(move || command.output())).await;
    ended(&output.expect("the run is bounded").expect("nothing panics").expect("the binary starts"))
}

/// Runs a plan; `words` are those of the mix without it.
pub(crate) async fn mix(words: &str, plan: &str) -> Ended {
    let directory = tempfile::tempdir().expect("there is room for a file");
    let file = directory.path().join("plan.toml");
    fs::write(&file, plan).expect("there is room for a file");
    let mut command = command(&format!("mix {words} --json - --plan"));
    command.arg(&file);
    finish(command).await
}

pub(crate) fn ended(output: &Output) -> Ended {
    Ended {
        code: output.status.code().expect("it ends by itself"),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A number of a report that must have it.
pub(crate) fn number(json: &Value, pointer: &str) -> f64 {
    json.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number {pointer} in {json:#}"))
}

/// What loadgen reads late, on a busy machine, it measures wrong by as much: then it cannot know.
pub(crate) fn assert_none_early(json: &Value) {
    const TOLERANCE_MS: f64 = 20.0;
    let [early, lag] = ["/early", "/loadgen/lag_ms_max"].map(|path| number(json, path));
    assert!(early == 0.0 || lag >= TOLERANCE_MS, "{early} early, {lag} ms of lag: {json:#}");
}
