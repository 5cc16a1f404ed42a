//! The server under test, as a process of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc;

use encke_server::systemd::VARIABLES;

use crate::process::Process;
use crate::raw::Dial;
use crate::redis::Redis;
use crate::waiting::{TIMEOUT, until};
use crate::{Admin, Client, Hello, Logs, binaries};

/// How to start the server. Without further ado it listens on free ports of loopback, with default settings.
#[derive(Debug)]
pub struct Launch {
    /// A command that runs the server as its last arguments, such as a shell that lowers limits first.
    wrapper: Vec<String>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    stdin: Option<OwnedFd>,
    binary: PathBuf,
    log_read: bool,
    /// Its channels are in a Redis of its own, unless the test says where.
    redis: Option<Redis>,
}

/// A server that has said where it listens. It ends when this is dropped.
#[derive(Debug)]
pub struct RunningServer {
    process: Process,
    /// Where clients connect.
    pub public: SocketAddr,
    /// The admin listener.
    pub admin: Admin,
    /// What it has logged.
    pub logs: Logs,
    /// What it printed when it was up.
    pub banner: String,
    _redis: Option<Redis>,
}

impl Default for Launch {
    fn default() -> Self {
        Self::listening_on("127.0.0.1:0")
    }
}

impl Launch {
    /// A server with these settings (`key=value`).
    #[must_use]
    pub fn with(settings: &[&str]) -> Self {
        settings.iter().fold(Self::default(), |launch, setting| launch.set(setting))
    }

    /// A server whose clients come to `public`.
    #[must_use]
    pub fn listening_on(public: &str) -> Self {
        Self::listening_on_both(public, "127.0.0.1:0")
    }

    /// A server whose clients come to `public`, and administrators to `admin`.
    #[must_use]
    pub fn listening_on_both(public: &str, admin: &str) -> Self {
        let arguments = ["--listen", public, "--admin", admin];
        Self {
            wrapper: Vec::new(),
            arguments: arguments.map(ToOwned::to_owned).into(),
            environment: Vec::new(),
            stdin: None,
            binary: binaries::encke(),
            log_read: true,
            redis: None,
        }
    }

    /// One more setting.
    #[must_use]
    pub fn set(self, setting: &str) -> Self {
        self.argument("--set").argument(setting)
    }

    /// One more argument.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// A variable of its environment.
    #[must_use]
    pub fn environment(mut self, name: &str, value: impl AsRef<Path>) -> Self {
        self.environment.push((name.to_owned(), value.as_ref().display().to_string()));
        self
    }

    /// A shell line to be run first, in the process that then becomes the server, after those that were given already.
    #[must_use]
    pub fn after(mut self, shell: &str) -> Self {
        const BECOME_THE_SERVER: &str = "exec \"$@\"";
        let before = self.wrapper.get(2).and_then(|line| line.strip_suffix(BECOME_THE_SERVER));
        let line = format!("{}{shell} && {BECOME_THE_SERVER}", before.unwrap_or_default());
        self.wrapper = ["sh", "-c", &line, "sh"].map(ToOwned::to_owned).into();
        self
    }

    /// A program that runs the server, with its own arguments.
    #[must_use]
    pub fn run_by(mut self, program: &[&str]) -> Self {
        self.wrapper = program.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Hands it what a supervisor of this many sockets would, each of which is this one; `names` as in `LISTEN_FDNAMES`.
    #[must_use]
    pub fn inheriting(self, socket: impl Into<OwnedFd>, sockets: usize, names: Option<&str>) -> Self {
        let names = names.map(|names| format!("LISTEN_FDNAMES={names}")).unwrap_or_default();
        let descriptors = (0..sockets).map(|index| format!("{}<&0 ", 3 + index)).collect::<String>();
        let environment = format!("export LISTEN_PID=$$ LISTEN_FDS={sockets} {names}");
        let mut launch = self.after(&format!("{environment} && exec {descriptors} 0</dev/null"));
        launch.stdin = Some(socket.into());
        launch
    }

    /// Nobody reads its log: sooner or later the pipe is full.
    #[must_use]
    pub fn with_unread_log(mut self) -> Self {
        self.log_read = false;
        self
    }

    /// Another build of it.
    #[must_use]
    pub fn of_binary(self, binary: PathBuf) -> Self {
        Self { binary, ..self }
    }

    /// Starts it and waits for its banner.
    ///
    /// # Panics
    /// When it does not come up.
    #[must_use]
    #[track_caller]
    pub fn start(self) -> RunningServer {
        self.spawn().await_banner()
    }

    /// Starts it.
    ///
    /// # Panics
    /// When there is no such binary.
    #[must_use]
    #[track_caller]
    pub fn spawn(mut self) -> Starting {
        if tests_are_on_redis() && !self.arguments.iter().any(|argument| argument.contains("engine.")) {
            let redis = Redis::start();
            self = self.set("engine.kind=redis").set(&format!("engine.url={}", redis.url()));
            self.redis = Some(redis);
        }
        if let Some(after) = std::env::var_os("ENCKE_TESTS_PARK")
            && !self.arguments.iter().any(|argument| argument.contains("parking.after"))
        {
            self = self.set(&format!("parking.after={}", after.display()));
        }
        let mut command = match self.wrapper.split_first() {
            Some((shell, arguments)) => {
                let mut command = Command::new(shell);
                command.args(arguments).arg(&self.binary);
                command
            }
            None => Command::new(&self.binary),
        };
        forget_environment(&mut command);
        command.args(&self.arguments).envs(self.environment);
        let mut child = command
            .stdin(self.stdin.map_or_else(Stdio::null, Stdio::from))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server can be started");
        let stdout = child.stdout.take().expect("stdout is piped");
        // What is not taken stays open for as long as the process is ours.
        let stderr = if self.log_read { child.stderr.take() } else { None };
        let logs = stderr.map_or_else(Logs::default, Logs::collect);
        Starting { process: Process::new(child), stdout, logs, redis: self.redis }
    }
}

/// A server whose banner was not awaited yet.
#[derive(Debug)]
pub struct Starting {
    /// The process.
    pub process: Process,
    stdout: ChildStdout,
    /// Its log.
    pub logs: Logs,
    redis: Option<Redis>,
}

impl Starting {
    /// Waits until it serves.
    ///
    /// # Panics
    /// When it does not come up.
    #[must_use]
    #[track_caller]
    pub fn await_banner(self) -> RunningServer {
        let Self { process, stdout, logs, redis } = self;
        let banner = read_banner(stdout).unwrap_or_else(|| panic!("no banner; the log: {}", logs.text()));
        let scheme = if banner.contains("wss://") { "wss://" } else { "ws://" };
        let admin_scheme = if banner.contains("https://") { "https://" } else { "http://" };
        let (public, admin) = (address(&banner, scheme), address(&banner, admin_scheme));
        RunningServer { process, public, admin: Admin::new(admin), logs, banner, _redis: redis }
    }
}

/// The setting for tests of what the memory engine alone promises, whatever engine other tests are run on: exact limits of logs; channels that nobody
/// follows; a message that is in its log here when its publisher is answered.
pub const IN_MEMORY: &str = "engine.kind=memory";

/// Whether every server of these tests has its channels in a Redis: `ENCKE_TESTS_ENGINE=redis`.
#[must_use]
pub fn tests_are_on_redis() -> bool {
    std::env::var_os("ENCKE_TESTS_ENGINE").is_some_and(|engine| engine == "redis")
}

/// What is set around the test, but for `ENCKE_TESTS_PARK`, `parking.after` for all servers that do not set it, must not reach the server.
fn forget_environment(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ENCKE_")
            || name == "RUST_LOG"
            || VARIABLES.contains(&&*name.to_string_lossy())
        {
            command.env_remove(name);
        }
    }
}

fn read_banner(stdout: ChildStdout) -> Option<String> {
    let (sender, banner) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            text.push_str(&line);
            text.push('\n');
            if line.trim_start().starts_with("try it") {
                let _ = sender.send(std::mem::take(&mut text));
            }
        }
    });
    banner.recv_timeout(TIMEOUT).ok()
}

fn address(banner: &str, scheme: &str) -> SocketAddr {
    let rest = banner.split_once(scheme).expect("the banner has the address").1;
    let end = rest.find('/').expect("the address is followed by a path");
    rest[..end].parse().expect("the banner's address is one")
}

impl RunningServer {
    /// Starts a server with these settings (`key=value`).
    #[must_use]
    #[track_caller]
    pub fn with(settings: &[&str]) -> Self {
        Launch::with(settings).start()
    }

    /// A new stock client, greeted.
    #[must_use]
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::connect(self.public, "")
    }

    /// The same, from this address.
    #[must_use]
    #[track_caller]
    pub fn client_from(&self, source: &str) -> Client {
        Client::over(Dial::from(source).connect(self.public), "")
    }

    /// A stock client that comes back for its session.
    #[must_use]
    #[track_caller]
    pub fn resume(&self, token: &str) -> Client {
        Client::connect(self.public, &format!("resume={token}"))
    }

    /// Waits until a session is in this phase.
    #[track_caller]
    pub fn await_phase(&self, session: &str, phase: &str) {
        until(format!("{session} is {phase}"), || self.admin.phase(session).as_deref() == Some(phase));
    }

    /// Waits until there is no such session any more.
    #[track_caller]
    pub fn await_gone(&self, session: &str) {
        until(format!("{session} is gone"), || self.admin.phase(session).is_none());
    }

    /// A session whose client has just left without a word, and which waits for it.
    #[must_use]
    #[track_caller]
    pub fn suspended_session(&self) -> Hello {
        let hello = self.client().drop_connection();
        self.await_phase(&hello.session, "suspended");
        hello
    }

    /// Asserts that it is alive and takes new clients.
    ///
    /// # Panics
    /// When it is not, or does not.
    #[track_caller]
    pub fn assert_unharmed(&self) {
        let health = self.admin.get("/healthz");
        assert_eq!(health.status, 200, "{health:?}");
        let mut client = self.client();
        assert!(!client.hello.recovered);
        client.send(r#"{"close":{}}"#);
        assert_eq!(client.close_code(), Some(1000));
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

/// Runs the server's binary to its end, which is to come without it serving anyone.
///
/// # Panics
/// When it cannot be started.
#[must_use]
pub fn run_to_end(arguments: &[&str], environment: &[(&str, &str)]) -> std::process::Output {
    let mut command = Command::new(binaries::encke());
    forget_environment(&mut command);
    command.args(arguments).envs(environment.iter().copied()).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("the server can be started");
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let read = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = pipe.expect("it is piped").read_to_end(&mut bytes);
            bytes
        })
    };
    let stdout = read(stdout.map(|pipe| Box::new(pipe) as _));
    let stderr = read(stderr.map(|pipe| Box::new(pipe) as _));
    let status = Process::new(child).await_exit(TIMEOUT);
    let bytes = |thread: std::thread::JoinHandle<Vec<u8>>| thread.join().expect("reading does not panic");
    std::process::Output { status, stdout: bytes(stdout), stderr: bytes(stderr) }
}
