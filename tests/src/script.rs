//! Stock clients and servers that run as scripts: the scripts in `tests/browser` under node, others with a
//! command that the test provides.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

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
    parsed: Mutex<ParsedOutput>,
}

/// Objects that a script has printed, with their times of arrival.
#[derive(Debug, Default)]
struct ParsedOutput {
    lines: usize,
    objects: Vec<(Instant, Value)>,
}

impl Script {
    /// Runs `tests/browser/{name}`.
    pub fn start(name: &str, arguments: &[&str]) -> Self {
        Self::run(Command::new("node"), name, arguments)
    }

    /// Runs `tests/browser/{name}`, which opens pages in the browser that all tests of this process share.
    pub fn start_in_browser(name: &str, arguments: &[&str]) -> Self {
        // A static is never dropped. The browser ends when this process does, which closes its standard input.
        static BROWSER: LazyLock<Script> = LazyLock::new(|| Script::start("browser_server.mjs", &[]));
        let address = BROWSER.await_value("browser", 1);
        let mut node = Command::new("node");
        node.env("ENCKE_TESTS_BROWSER", address.as_str().expect("an address"));
        Self::run(node, name, arguments)
    }

    /// Runs any command that follows the protocol of these scripts.
    pub fn spawn(mut command: Command) -> Self {
        Self { process: Process::start_with(&mut command, Stdio::piped()), parsed: Mutex::default() }
    }

    /// Runs `tests/browser/{name}` at the far end of a link.
    pub fn start_beyond(link: &NetworkLink, name: &str, arguments: &[&str]) -> Self {
        Self::run(link.command("node"), name, arguments)
    }

    fn run(mut node: Command, name: &str, arguments: &[&str]) -> Self {
        node.arg(in_browser_folder(name)).args(arguments);
        Self::spawn(node)
    }

    /// Parses the lines printed since the last call, and returns all objects.
    fn objects(&self) -> MutexGuard<'_, ParsedOutput> {
        let mut parsed = self.parsed.lock();
        for (at, line) in self.process.stdout.lines_after(parsed.lines) {
            parsed.objects.push((at, serde_json::from_str(&line).expect("scripts print JSON")));
            parsed.lines += 1;
        }
        parsed
    }

    /// Sends a command to a script that accepts commands.
    pub fn send_command(&mut self, command: &Value) {
        self.process.write_line(command);
    }

    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Removes and returns all objects printed so far, with their times of arrival. No other method returns
    /// them after that.
    pub fn take_objects(&self) -> Vec<(Instant, Value)> {
        std::mem::take(&mut self.objects().objects)
    }

    pub fn stderr_text(&self) -> String {
        self.process.stderr.text()
    }

    /// Returns the value of `key` in each object that has it.
    pub fn values(&self, key: &str) -> Vec<Value> {
        let parsed = self.objects();
        parsed.objects.iter().filter_map(|(_, object)| object.get(key)).cloned().collect()
    }

    pub fn count(&self, key: &str) -> usize {
        self.values(key).len()
    }

    /// Waits for the `nth` object that has `key`, counted from 1.
    #[track_caller]
    pub fn await_object(&self, key: &str, nth: usize) -> Value {
        let what = fmt::from_fn(|f| {
            let objects = &self.objects().objects;
            let objects: Vec<_> = objects.iter().map(|(_, object)| object).collect();
            write!(f, "{key} number {nth}; received: {objects:?}; standard error: {}", self.stderr_text())
        });
        eventually(what, || {
            let objects = &self.objects().objects;
            let mut with_key =
                objects.iter().map(|(_, object)| object).filter(|object| object.get(key).is_some());
            with_key.nth(nth - 1).cloned()
        })
    }

    /// Waits for the `nth` object that has `key`, counted from 1, and returns the value of `key`.
    #[track_caller]
    pub fn await_value(&self, key: &str, nth: usize) -> Value {
        self.await_object(key, nth)[key].take()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.process.close_stdin();
        // Give the script time to exit by itself, so that it leaves no browser running.
        let _ = poll_until(EXIT_TIMEOUT, || self.process.try_wait());
    }
}

/// Returns the path of `tests/browser/{name}`.
pub(crate) fn in_browser_folder(name: &str) -> PathBuf {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("browser");
    assert!(
        scripts.join("node_modules").is_dir(),
        "the packages of tests/browser are missing: install them first (npm ci --prefix tests/browser)"
    );
    scripts.join(name)
}
