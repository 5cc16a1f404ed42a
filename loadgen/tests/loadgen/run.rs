//! Runs the binary against a server, and parses its output.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use encke_loadgen::FaultyServer;
use encke_loadgen::behaviour::{Behaviour, HONEST};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Time limit for one run. No test takes nearly that long.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// An honest server for tests in which clients must stay connected, even if a busy machine delays their answers.
pub(crate) const PATIENT: Behaviour = Behaviour { pong_timeout: Some(Duration::from_secs(60)), ..HONEST };
/// A server that closes every connection after the hello.
pub(crate) const CLOSES: Behaviour = Behaviour { close_after_hello: Some(4002), ..HONEST };

/// Starts a server. `behave` returns the behaviour for the n-th connection, counted from 0.
pub(crate) async fn server(behave: impl Fn(usize) -> Behaviour + Send + 'static) -> FaultyServer {
    FaultyServer::start(behave).await.expect("loopback has a free port")
}

pub(crate) async fn patient_server() -> FaultyServer {
    server(|_| PATIENT).await
}

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

    #[track_caller]
    pub(crate) fn assert_code(&self, code: i32) {
        assert_eq!(self.code, code, "stderr: {}", self.stderr);
    }

    /// Asserts that the run failed with this code and a message with this text.
    #[track_caller]
    pub(crate) fn assert_failed(&self, code: i32, message: &str) {
        self.assert_code(code);
        assert!(self.stderr.contains(message), "{message} in {}", self.stderr);
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

/// Returns the result of a run that succeeds.
pub(crate) async fn report(words: &str) -> Value {
    let ended = loadgen(&format!("{words} --json -")).await;
    ended.assert_code(0);
    ended.json()
}

pub(crate) async fn finish(mut command: Command) -> Ended {
    let output = timeout(RUN_LIMIT, spawn_blocking(move || command.output())).await;
    ended(
        &output.expect("the run ends in time").expect("the task does not panic").expect("the binary starts"),
    )
}

/// Runs a command, and sends it a signal as soon as `begun` returns.
pub(crate) async fn interrupt(
    mut command: Command,
    signal: Signal,
    begun: impl Future<Output = ()>,
) -> Ended {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    begun.await;
    let pid = Pid::from_raw(child.id().try_into().expect("process ids fit into i32"));
    kill(pid, signal).expect("the child is running");
    let output = spawn_blocking(move || child.wait_with_output()).await.expect("the task does not panic");
    ended(&output.expect("the child exits"))
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

fn ended(output: &Output) -> Ended {
    Ended {
        code: output.status.code().expect("the process is not killed by a signal"),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Returns a number of a report. Panics if it is missing.
#[track_caller]
pub(crate) fn number(json: &Value, pointer: &str) -> f64 {
    json.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number {pointer} in {json:#}"))
}

/// Asserts that the report has these values.
#[track_caller]
pub(crate) fn assert_has(json: &Value, expected: &[(&str, Value)]) {
    for (pointer, value) in expected {
        assert_eq!(json.pointer(pointer), Some(value), "{pointer} in {json:#}");
    }
}
