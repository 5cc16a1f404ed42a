//! The chat of `tests/example`: its original files, except for the addresses, in a directory that resembles a
//! fresh clone.

// Backends in each language, built on the files that users copy from the example.
mod backends;
// The guide to a chat, followed in two browsers.
mod guide;

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use encke_tests::port::Port;
use encke_tests::process::Process;
use encke_tests::waiting::until;
use encke_tests::{HttpResponse, Launch, admin};
use serde_json::Value;
use tempfile::TempDir;

/// Commands that start the backend and the server.
const BACKEND: &str = "mkdir -p -m 700 target/state && python3 tests/example/backend.py";
const SERVER: &str = "cargo run --release -- --config tests/example/encke.toml";

/// Copy of the example. See the [module](self).
struct Example {
    clone: TempDir,
    backend: Port,
    public: Port,
    admin: Port,
}

impl Example {
    fn new() -> Self {
        let [backend, public, admin] = [Port::reserve(), Port::reserve(), Port::reserve()];
        let example = Self { clone: tempfile::tempdir().expect("a folder"), backend, public, admin };
        let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("example");
        let copy = example.clone.path().join("tests/example");
        fs::create_dir_all(&copy).expect("a folder");
        for name in ["backend.py", "encke_backend.py", "encke.toml", "index.html"] {
            let text = fs::read_to_string(original.join(name)).expect("the example has the file");
            fs::write(copy.join(name), example.localized(&text)).expect("a file");
        }
        example
    }

    /// Replaces the addresses and the directory in a text with those of this test.
    fn localized(&self, text: &str) -> String {
        let port = format!("PORT = {}", self.backend.address.port());
        text.replace("127.0.0.1:3000", &self.backend.address.to_string())
            .replace("PORT = 3000", &port)
            .replace("127.0.0.1:8000", &self.public.address.to_string())
            .replace("127.0.0.1:8001", &self.admin.address.to_string())
    }

    /// Returns a shell that runs a command from the guide in the clone, and that becomes the last program of
    /// that command.
    fn shell(&self, command: &str) -> Command {
        let (before, last) = command.rsplit_once("&& ").unwrap_or(("true ", command));
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &self.localized(&format!("{before}&& exec {last}"))])
            .current_dir(self.clone.path());
        shell
    }

    /// Starts the backend and waits until it listens.
    #[track_caller]
    fn start_backend(&self, command: &str) -> Process {
        let backend = Process::start(&mut self.shell(command));
        until("the backend listens", || TcpStream::connect(self.backend.address).is_ok());
        backend
    }

    /// Returns the server under test with the arguments from the guide.
    #[track_caller]
    fn launch(&self, command: &str) -> Launch {
        let arguments = command.strip_prefix("cargo run --release -- ").expect("the command runs the server");
        let [public, admin] = [&self.public, &self.admin].map(|port| port.address.to_string());
        let launch = Launch::listening_on_both(&public, &admin);
        let launch = launch.run_first(&format!("cd '{}'", self.clone.path().display()));
        arguments.split(' ').fold(launch, Launch::argument)
    }

    /// Returns the backend's response to a `POST` of this body.
    #[track_caller]
    fn post(&self, path: &str, body: &str) -> HttpResponse {
        let Port { address, .. } = self.backend;
        let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
        admin::send_request(address, &format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()))
    }

    /// Returns all events that the server has sent to the backend, once each, in the order of their first
    /// arrival.
    #[track_caller]
    fn events(&self) -> Vec<Value> {
        let Port { address, .. } = self.backend;
        let request = format!("GET /events HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        let answer = admin::send_request(address, &request);
        serde_json::from_str(&answer.body).expect("the backend answers JSON")
    }
}

/// Returns the names of a session's events, asserting that the events are numbered from 1.
#[track_caller]
fn names<'a>(events: &'a [Value], session: &str) -> Vec<&'a str> {
    let own: Vec<_> = events.iter().filter(|event| event["session"] == session).collect();
    let numbers: Vec<_> = own.iter().map(|event| event["number"].as_u64()).collect();
    assert_eq!(numbers, (1..).map(Some).take(own.len()).collect::<Vec<_>>(), "{session}: {own:?}");
    own.iter().map(|event| event["event"].as_str().expect("an event has a name")).collect()
}
