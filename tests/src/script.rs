//! Stock clients and servers that run as scripts: the scripts in `tests/browser` under node, others with a
//! command that the test provides.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;

use crate::Logs;
use crate::network::NetworkLink;
use crate::process::{Process, Signal};
use crate::waiting::{eventually, poll_until};

/// How long a script may take to close its browser before it is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Script that prints one JSON object per line. It exits when its standard input closes: when this is
/// dropped, or when the test is killed.
#[derive(Debug)]
pub struct Script {
    process: Process,
    stdin: Option<ChildStdin>,
    output: ScriptOutput,
    stderr: Logs,
}

/// Output of a script so far, collected by a thread.
#[derive(Clone, Debug, Default)]
struct ScriptOutput {
    objects: Arc<Mutex<Vec<(Instant, Value)>>>,
}

impl Script {
    /// Runs `tests/browser/{name}`.
    #[must_use]
    #[track_caller]
    pub fn start(name: &str, arguments: &[&str]) -> Self {
        Self::run(Command::new("node"), name, arguments)
    }

    /// Runs any command that follows the protocol of these scripts.
    ///
    /// # Panics
    /// Panics if it cannot be started.
    #[must_use]
    #[track_caller]
    pub fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let spawned = command.spawn();
        let mut child = spawned.unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        let output = ScriptOutput::collect(child.stdout.take().expect("stdout is piped"));
        let stderr = Logs::collect(child.stderr.take().expect("stderr is piped"));
        Self { stdin: child.stdin.take(), process: Process::new(child), output, stderr }
    }

    /// Runs `tests/browser/{name}` at the far end of a link.
    #[must_use]
    #[track_caller]
    pub fn start_beyond(link: &NetworkLink, name: &str, arguments: &[&str]) -> Self {
        Self::run(link.command("node"), name, arguments)
    }

    #[track_caller]
    fn run(mut node: Command, name: &str, arguments: &[&str]) -> Self {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("browser");
        assert!(
            scripts.join("node_modules").is_dir(),
            "the packages of tests/browser are missing: install them first (npm ci --prefix tests/browser)"
        );
        node.arg(scripts.join(name)).args(arguments);
        Self::spawn(node)
    }

    /// Sends a command to a script that accepts commands.
    ///
    /// # Panics
    /// Panics if the script has exited.
    #[track_caller]
    pub fn send_command(&mut self, command: &Value) {
        let stdin = self.stdin.as_mut().expect("stdin is open until the script is dropped");
        writeln!(stdin, "{command}").expect("the script is running");
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// Panics if the script has exited.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Removes and returns all objects printed so far, with their times of arrival. No other method returns
    /// them after that.
    #[must_use]
    pub fn take_objects(&self) -> Vec<(Instant, Value)> {
        std::mem::take(&mut self.output.objects.lock())
    }

    /// Returns what the script has written to standard error so far.
    #[must_use]
    pub fn stderr_text(&self) -> String {
        self.stderr.text()
    }

    /// Returns the value of `key` in each object that has it.
    #[must_use]
    pub fn values(&self, key: &str) -> Vec<Value> {
        self.output.objects.lock().iter().filter_map(|(_, object)| object.get(key)).cloned().collect()
    }

    /// Returns the number of objects that have `key`.
    #[must_use]
    pub fn count(&self, key: &str) -> usize {
        self.output.objects.lock().iter().filter(|(_, object)| object.get(key).is_some()).count()
    }

    /// Waits for the `nth` object that has `key`, counted from 1.
    ///
    /// # Panics
    /// Panics if it does not arrive.
    #[track_caller]
    pub fn await_object(&self, key: &str, nth: usize) -> Value {
        let what = fmt::from_fn(|f| {
            let objects = self.output.objects.lock();
            let stderr = self.stderr.text();
            let objects: Vec<_> = objects.iter().map(|(_, object)| object).collect();
            write!(f, "{key} number {nth}; received: {objects:?}; standard error: {stderr}")
        });
        eventually(what, || {
            let objects = self.output.objects.lock();
            objects
                .iter()
                .map(|(_, object)| object)
                .filter(|object| object.get(key).is_some())
                .nth(nth - 1)
                .cloned()
        })
    }

    /// Waits for the `nth` object that has `key`, counted from 1, and returns the value of `key`.
    #[must_use]
    #[track_caller]
    pub fn await_value(&self, key: &str, nth: usize) -> Value {
        self.await_object(key, nth)[key].take()
    }
}

impl ScriptOutput {
    fn collect(source: impl Read + Send + 'static) -> Self {
        let output = Self::default();
        let objects = Arc::clone(&output.objects);
        std::thread::spawn(move || {
            for line in BufReader::new(source).lines().map_while(Result::ok) {
                let object = serde_json::from_str(&line).expect("scripts print JSON");
                objects.lock().push((Instant::now(), object));
            }
        });
        output
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // Give the script time to exit by itself, so that it leaves no browser running.
        let _ = poll_until(EXIT_TIMEOUT, || self.process.try_wait());
    }
}
