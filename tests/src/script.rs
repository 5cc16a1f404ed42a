//! Stock clients and servers as scripts: those in `tests/browser` are run by node, others by whatever runs them.

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
use crate::waiting::{eventually, look_for};

/// How long a script may take to end its browser. Then it is killed.
const GOODBYE: Duration = Duration::from_secs(10);

/// A script that prints what it hears, an object a line. It ends with its standard input: when this is dropped, or the test
/// is killed.
#[derive(Debug)]
pub struct Script {
    process: Process,
    stdin: Option<ChildStdin>,
    heard: Heard,
    complaints: Logs,
}

/// What a script has printed so far; a thread takes it in as it comes.
#[derive(Clone, Debug, Default)]
struct Heard {
    objects: Arc<Mutex<Vec<(Instant, Value)>>>,
}

impl Script {
    /// Runs `tests/browser/{name}`.
    #[must_use]
    #[track_caller]
    pub fn start(name: &str, arguments: &[&str]) -> Self {
        Self::run(Command::new("node"), name, arguments)
    }

    /// Runs any command that does as such a script does.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    #[track_caller]
    pub fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let spawned = command.spawn();
        let mut child = spawned.unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        let heard = Heard::collect(child.stdout.take().expect("stdout is piped"));
        let complaints = Logs::collect(child.stderr.take().expect("stderr is piped"));
        Self { stdin: child.stdin.take(), process: Process::new(child), heard, complaints }
    }

    /// Runs it at the far end of a link.
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
            "the packages of tests/browser are not there: install them first (npm ci --prefix tests/browser)"
        );
        node.arg(scripts.join(name)).args(arguments);
        Self::spawn(node)
    }

    /// Tells the script to do something, as far as it takes commands.
    ///
    /// # Panics
    /// When it has ended.
    #[track_caller]
    pub fn tell(&mut self, command: &Value) {
        let stdin = self.stdin.as_mut().expect("it is open until the script is dropped");
        writeln!(stdin, "{command}").expect("the script runs");
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When it has ended.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Takes all that it has printed since this was asked last, with when it came. No other method sees that any more.
    #[must_use]
    pub fn take_heard(&self) -> Vec<(Instant, Value)> {
        std::mem::take(&mut self.heard.objects.lock())
    }

    /// What it has written to standard error so far.
    #[must_use]
    pub fn complaints(&self) -> String {
        self.complaints.text()
    }

    /// The values under `key` of all that has it so far.
    #[must_use]
    pub fn heard(&self, key: &str) -> Vec<Value> {
        self.heard.objects.lock().iter().filter_map(|(_, object)| object.get(key)).cloned().collect()
    }

    /// How many have `key` so far.
    #[must_use]
    pub fn count(&self, key: &str) -> usize {
        self.heard.objects.lock().iter().filter(|(_, object)| object.get(key).is_some()).count()
    }

    /// Waits for the `nth` object that has `key`, counted from 1.
    ///
    /// # Panics
    /// When it does not come.
    #[track_caller]
    pub fn await_object(&self, key: &str, nth: usize) -> Value {
        let what = fmt::from_fn(|f| {
            let heard = self.heard.objects.lock();
            let complaints = self.complaints.text();
            let heard: Vec<_> = heard.iter().map(|(_, object)| object).collect();
            write!(f, "{key} number {nth}; heard: {heard:?}; on standard error: {complaints}")
        });
        eventually(what, || {
            let heard = self.heard.objects.lock();
            heard
                .iter()
                .map(|(_, object)| object)
                .filter(|object| object.get(key).is_some())
                .nth(nth - 1)
                .cloned()
        })
    }

    /// The value under `key` of the `nth` object that has it.
    #[must_use]
    #[track_caller]
    pub fn await_value(&self, key: &str, nth: usize) -> Value {
        self.await_object(key, nth)[key].take()
    }
}

impl Heard {
    fn collect(source: impl Read + Send + 'static) -> Self {
        let heard = Self::default();
        let objects = Arc::clone(&heard.objects);
        std::thread::spawn(move || {
            for line in BufReader::new(source).lines().map_while(Result::ok) {
                let object = serde_json::from_str(&line).expect("scripts print JSON");
                objects.lock().push((Instant::now(), object));
            }
        });
        heard
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It leaves nothing behind if it ends by itself.
        let _ = look_for(GOODBYE, || self.process.try_wait());
    }
}
