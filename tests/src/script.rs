//! Stock clients and servers that run as scripts: the scripts in `tests/browser` under node, others with a
//! command that the test provides.

use std::fmt;
use std::io::Write;
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use crate::Logs;
use crate::network::NetworkLink;
use crate::process::Process;
use crate::waiting::{eventually, poll_until};

/// Runs all scripts that open pages. A static is never dropped, but the script ends when this process does.
static BROWSER: LazyLock<Script> = LazyLock::new(|| Script::start("pages.mjs", &[]));

/// How long a script may take to close its browser before it is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Script that prints one JSON object per line. It exits when its input closes: when this is dropped, or when
/// the test is killed.
#[derive(Debug)]
pub struct Script {
    place: Place,
    parsed: Mutex<ParsedOutput>,
}

#[derive(Debug)]
enum Place {
    Process(Process),
    /// A connection to `tests/browser/pages.mjs`, and what it has sent.
    Browser(TcpStream, Logs),
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

    /// Runs `tests/browser/{name}`, which opens pages, in the browser that all tests of this process share.
    pub fn start_in_browser(name: &str, arguments: &[&str]) -> Self {
        let port = BROWSER.await_value("port", 1).as_u64().and_then(|port| u16::try_from(port).ok());
        let address = (Ipv4Addr::LOCALHOST, port.expect("a port"));
        let mut stream = TcpStream::connect(address).expect("the browser's process accepts");
        writeln!(stream, "{}", json!([&[name], arguments].concat())).expect("the browser's process reads");
        let output = Logs::collect(stream.try_clone().expect("the socket can be cloned"));
        Self { place: Place::Browser(stream, output), parsed: Mutex::default() }
    }

    /// Runs any command that follows the protocol of these scripts.
    pub fn spawn(mut command: Command) -> Self {
        let process = Process::start_with(&mut command, Stdio::piped());
        Self { place: Place::Process(process), parsed: Mutex::default() }
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
        let output = match &self.place {
            Place::Process(process) => &process.stdout,
            Place::Browser(_, output) => output,
        };
        for (at, line) in output.lines_after(parsed.lines) {
            parsed.objects.push((at, serde_json::from_str(&line).expect("scripts print JSON")));
            parsed.lines += 1;
        }
        parsed
    }

    /// Sends a command to a script that accepts commands.
    pub fn send_command(&mut self, command: &Value) {
        match &mut self.place {
            Place::Process(process) => process.write_line(command),
            Place::Browser(stream, _) => writeln!(stream, "{command}").expect("the script is running"),
        }
    }

    /// Removes and returns all objects printed so far, with their times of arrival. No other method returns
    /// them after that.
    pub fn take_objects(&self) -> Vec<(Instant, Value)> {
        std::mem::take(&mut self.objects().objects)
    }

    pub fn stderr_text(&self) -> String {
        match &self.place {
            Place::Process(process) => process.stderr.text(),
            Place::Browser(..) => BROWSER.stderr_text(),
        }
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
        match &mut self.place {
            Place::Process(process) => {
                process.close_stdin();
                // Give the script time to exit by itself, so that it leaves no browser running.
                let _ = poll_until(EXIT_TIMEOUT, || process.try_wait());
            }
            // The thread that collects the output holds the socket open.
            Place::Browser(stream, _) => _ = stream.shutdown(Shutdown::Both),
        }
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
