//! The server under test, run as a child process.

use std::ffi::OsStr;
use std::fmt;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use encke_server::systemd::VARIABLES;
use serde_json::json;

use crate::connection::Dial;
use crate::process::{Process, ProcessOutput, wrapped};
use crate::redis::Redis;
use crate::tokens::{SECRET, token};
use crate::waiting::{TIMEOUT, eventually, until};
use crate::{Admin, Certificate, Client, Hello, Logs, binaries};

/// Settings for tests whose clients answer pings: the shortest timeouts that a client can meet on a busy machine,
/// which may delay it by [`MAX_LATENESS`](crate::waiting::MAX_LATENESS).
pub const FREQUENT_PINGS: [&str; 2] = ["session.ping_interval=6s", "session.pong_timeout=6s"];

/// Configures how the server is started. By default it listens on free loopback ports, with default settings.
#[derive(Debug)]
#[must_use]
pub struct Launch {
    /// Command that runs the server as its last arguments, such as a shell that lowers limits first.
    wrapper: Vec<String>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    stdin: Option<OwnedFd>,
    binary: PathBuf,
    /// Redis that holds the server's channels, if the test run uses Redis and the test does not choose an
    /// engine itself.
    redis: Option<Redis>,
}

/// Running server whose addresses are known. It is killed when this is dropped.
#[derive(Debug)]
pub struct RunningServer {
    process: Process,
    pub public: SocketAddr,
    pub admin: Admin,
    pub logs: Logs,
    /// Text that the server printed when it was ready.
    pub banner: String,
    _redis: Option<Redis>,
}

impl Default for Launch {
    fn default() -> Self {
        Self::listening_on("127.0.0.1:0")
    }
}

impl Launch {
    /// Configures a server with these settings (`key=value`).
    pub fn with(settings: &[&str]) -> Self {
        Self::default().set_all(settings)
    }

    pub fn set_all(self, settings: &[&str]) -> Self {
        settings.iter().fold(self, |launch, setting| launch.set(setting))
    }

    /// Configures a server that requires tokens for [`SECRET`], and has these settings.
    pub fn with_tokens(settings: &[&str]) -> Self {
        Self::with(settings).environment("ENCKE_AUTH__SECRET", SECRET)
    }

    /// Configures a server whose clients connect to this address.
    pub fn listening_on(public: &str) -> Self {
        Self::listening_on_both(public, "127.0.0.1:0")
    }

    /// Configures a server whose clients connect to `public` and whose admin listener is at `admin`.
    pub fn listening_on_both(public: &str, admin: &str) -> Self {
        let arguments = ["--listen", public, "--admin", admin];
        Self {
            wrapper: Vec::new(),
            arguments: arguments.map(ToOwned::to_owned).into(),
            environment: Vec::new(),
            stdin: None,
            binary: binaries::encke(),
            redis: None,
        }
    }

    /// Adds a setting (`key=value`).
    pub fn set(self, setting: &str) -> Self {
        self.argument("--set").argument(setting)
    }

    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    pub fn environment(mut self, name: &str, value: impl AsRef<Path>) -> Self {
        self.environment.push((name.to_owned(), value.as_ref().display().to_string()));
        self
    }

    /// Adds a shell command that runs before the server, in the same process, after any commands added
    /// earlier.
    pub fn run_first(mut self, shell: &str) -> Self {
        const EXEC_SERVER: &str = "exec \"$@\"";
        let before = self.wrapper.get(2).and_then(|line| line.strip_suffix(EXEC_SERVER));
        let line = format!("{}{shell} && {EXEC_SERVER}", before.unwrap_or_default());
        self.wrapper = ["sh", "-c", &line, "sh"].map(ToOwned::to_owned).into();
        self
    }

    /// Runs the server through a program, which is given with its own arguments.
    pub fn wrapped_by(mut self, program: &[&str]) -> Self {
        self.wrapper = program.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Passes `socket` to the server as socket activation does, as `sockets` inherited descriptors with
    /// `names` as `LISTEN_FDNAMES`.
    pub fn inheriting(self, socket: impl Into<OwnedFd>, sockets: usize, names: Option<&str>) -> Self {
        let names = names.map(|names| format!("LISTEN_FDNAMES={names}")).unwrap_or_default();
        let descriptors = (0..sockets).map(|index| format!("{}<&0 ", 3 + index)).collect::<String>();
        let environment = format!("export LISTEN_PID=$$ LISTEN_FDS={sockets} {names}");
        let mut launch = self.run_first(&format!("{environment} && exec {descriptors} 0</dev/null"));
        launch.stdin = Some(socket.into());
        launch
    }

    /// Serves clients over TLS with this certificate, which it writes into `directory`.
    pub fn with_certificate(self, certificate: &Certificate, directory: &Path) -> Self {
        let (chain, key) = certificate.write(directory);
        self.set(&format!("tls.certificate={}", chain.display())).set(&format!("tls.key={}", key.display()))
    }

    pub fn with_binary(self, binary: PathBuf) -> Self {
        Self { binary, ..self }
    }

    pub fn start(self) -> RunningServer {
        self.spawn().await_banner()
    }

    /// Starts the server without waiting for its banner.
    pub fn spawn(mut self) -> StartingServer {
        if tests_use_redis() && !self.arguments.iter().any(|argument| argument.contains("engine.")) {
            let redis = Redis::start();
            self = self.set("engine.kind=redis").set(&format!("engine.url={}", redis.url()));
            self.redis = Some(redis);
        }
        if let Some(after) = std::env::var_os("ENCKE_TESTS_PARK")
            && !self.arguments.iter().any(|argument| argument.contains("parking.after"))
        {
            self = self.set(&format!("parking.after={}", after.display()));
        }
        let mut command = server_command(&self.wrapper, &self.binary);
        command.args(&self.arguments).envs(self.environment);
        let process = Process::start_with(&mut command, self.stdin.map_or_else(Stdio::null, Stdio::from));
        StartingServer { logs: process.stderr.clone(), process, redis: self.redis }
    }
}

/// Server process whose banner has not been read yet.
#[derive(Debug)]
pub struct StartingServer {
    pub process: Process,
    pub logs: Logs,
    redis: Option<Redis>,
}

impl StartingServer {
    /// Waits until the server accepts connections.
    #[track_caller]
    pub fn await_banner(self) -> RunningServer {
        let Self { process, logs, redis } = self;
        let what = fmt::from_fn(|f| write!(f, "the server prints its banner; its log: {}", logs.text()));
        let banner = eventually(what, || {
            let lines = process.stdout.lines();
            let last = lines.iter().position(|line| line.trim_start().starts_with("try it"))?;
            Some(lines[..=last].join("\n"))
        });
        let scheme = if banner.contains("wss://") { "wss://" } else { "ws://" };
        let admin_scheme = if banner.contains("https://") { "https://" } else { "http://" };
        let (public, admin) = (address(&banner, scheme), address(&banner, admin_scheme));
        RunningServer { process, public, admin: Admin::new(admin), logs, banner, _redis: redis }
    }
}

/// Setting that selects the memory engine regardless of the test run's engine. For tests of guarantees that
/// only the memory engine gives: exact log limits, channels without subscribers, and a message that is in the
/// local log by the time its publisher receives the reply.
pub const IN_MEMORY: &str = "engine.kind=memory";

/// Whether the test run gives every server a Redis for its channels (`ENCKE_TESTS_ENGINE=redis`).
pub fn tests_use_redis() -> bool {
    std::env::var_os("ENCKE_TESTS_ENGINE").is_some_and(|engine| engine == "redis")
}

/// Command that runs a server through `wrapper`, without the variables of the test's own environment that would
/// configure it. `ENCKE_TESTS_PARK`, which sets `parking.after` for all servers that do not set it, has been read
/// by then.
fn server_command(wrapper: &[String], binary: impl AsRef<OsStr>) -> Command {
    let mut command = wrapped(wrapper, binary);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("ENCKE_") || text == "RUST_LOG" || VARIABLES.contains(&&*text) {
            command.env_remove(&name);
        }
    }
    command
}

fn address(banner: &str, scheme: &str) -> SocketAddr {
    let rest = banner.split_once(scheme).expect("the banner contains the address").1;
    let end = rest.find('/').expect("a path follows the address");
    rest[..end].parse().expect("the banner's address is valid")
}

impl RunningServer {
    /// Starts a server with these settings (`key=value`).
    pub fn with(settings: &[&str]) -> Self {
        Launch::with(settings).start()
    }

    /// Starts a server that requires tokens for [`SECRET`], and has these settings.
    pub fn with_tokens(settings: &[&str]) -> Self {
        Launch::with_tokens(settings).start()
    }

    /// Connects a new stock client and reads its greeting.
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::connect(self.public, "")
    }

    /// Like [`client`](Self::client), from this source address.
    #[track_caller]
    pub fn client_from(&self, source: &str) -> Client {
        Client::over(Dial::from(source).connect(self.public), "")
    }

    /// Connects a client with a token of this user and with all permissions.
    #[track_caller]
    pub fn client_of(&self, user: &str) -> Client {
        self.client_with(&token(user, json!({})))
    }

    #[track_caller]
    pub fn client_with(&self, token: &str) -> Client {
        Client::connect(self.public, &format!("token={token}"))
    }

    /// Connects a stock client that resumes its session.
    pub fn resume(&self, token: &str) -> Client {
        Client::connect(self.public, &format!("resume={token}"))
    }

    #[track_caller]
    pub fn await_phase(&self, session: &str, phase: &str) {
        until(format!("{session} is {phase}"), || self.admin.phase(session).as_deref() == Some(phase));
    }

    #[track_caller]
    pub fn await_removal(&self, session: &str) {
        until(format!("{session} is removed"), || self.admin.phase(session).is_none());
    }

    /// Waits until a session has as many lifecycle events as `expected` names, and asserts that they are equal.
    /// `expected` lists each event with its reason, such as "opened connect, suspended pong_timeout".
    #[track_caller]
    pub fn await_lifecycle(&self, session: &str, expected: &str) {
        let mut seen = Vec::new();
        until(format!("the lifecycle {expected}"), || {
            seen = self.logs.lifecycle(session);
            seen.len() >= expected.split(", ").count()
        });
        let seen: Vec<_> = seen.iter().map(|(event, reason)| format!("{event} {reason}")).collect();
        assert_eq!(seen.join(", "), expected);
    }

    /// Waits until a poll or a Bayeux connect of the session is held.
    #[track_caller]
    pub fn await_held(&self, session: &str) {
        until(format!("a poll of {session} is held"), || {
            let session = self.admin.session(session);
            let deadlines = session["deadlines"].as_array().expect("an array");
            deadlines.iter().any(|armed| armed["deadline"] == "poll_hold")
        });
    }

    /// Disconnects a client without closing its session, and waits until the session is suspended.
    #[track_caller]
    pub fn suspend(&self, client: Client) -> Hello {
        let hello = client.drop_connection();
        self.await_phase(&hello.session, "suspended");
        hello
    }

    /// Creates a suspended session.
    #[track_caller]
    pub fn suspended_session(&self) -> Hello {
        self.suspend(self.client())
    }

    /// Asserts that the server is healthy and accepts new clients.
    #[track_caller]
    pub fn assert_healthy(&self) {
        let health = self.admin.get("/healthz");
        assert_eq!(health.status, 200, "{health:?}");
        let mut client = self.client();
        assert!(!client.hello.recovered);
        client.close();
    }
}

impl Drop for RunningServer {
    /// Fails the test if the server has panicked, for example because locks were taken in the wrong order. A
    /// panic of a task ends only its connection, so the test might not notice it.
    fn drop(&mut self) {
        assert!(std::thread::panicking() || self.logs.count("panicked at") == 0, "{}", self.logs.text());
    }
}

impl Deref for RunningServer {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for RunningServer {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// Runs the server's binary until it exits, for command lines that make it exit instead of serving.
pub fn run_to_end(arguments: &[&str], environment: &[(&str, &str)]) -> ProcessOutput {
    let mut command = server_command(&[], binaries::encke());
    Process::start(command.args(arguments).envs(environment.iter().copied())).output(TIMEOUT)
}
