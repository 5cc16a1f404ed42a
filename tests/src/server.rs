//! The server under test, run as a child process.

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

/// Configures how the server is started. By default it listens on free loopback ports, with default settings.
#[derive(Debug)]
pub struct Launch {
    /// Command that runs the server as its last arguments, such as a shell that lowers limits first.
    wrapper: Vec<String>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    stdin: Option<OwnedFd>,
    binary: PathBuf,
    reads_log: bool,
    /// Redis that holds the server's channels, if the test run uses Redis and the test does not choose an
    /// engine itself.
    redis: Option<Redis>,
}

/// Running server whose addresses are known. It is killed when this is dropped.
#[derive(Debug)]
pub struct RunningServer {
    process: Process,
    /// Address that clients connect to.
    pub public: SocketAddr,
    /// Client of the admin listener.
    pub admin: Admin,
    /// Log output so far.
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
    #[must_use]
    pub fn with(settings: &[&str]) -> Self {
        settings.iter().fold(Self::default(), |launch, setting| launch.set(setting))
    }

    /// Configures a server whose clients connect to `public`.
    #[must_use]
    pub fn listening_on(public: &str) -> Self {
        Self::listening_on_both(public, "127.0.0.1:0")
    }

    /// Configures a server whose clients connect to `public` and whose admin listener is at `admin`.
    #[must_use]
    pub fn listening_on_both(public: &str, admin: &str) -> Self {
        let arguments = ["--listen", public, "--admin", admin];
        Self {
            wrapper: Vec::new(),
            arguments: arguments.map(ToOwned::to_owned).into(),
            environment: Vec::new(),
            stdin: None,
            binary: binaries::encke(),
            reads_log: true,
            redis: None,
        }
    }

    /// Adds a setting (`key=value`).
    #[must_use]
    pub fn set(self, setting: &str) -> Self {
        self.argument("--set").argument(setting)
    }

    /// Adds a command-line argument.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn environment(mut self, name: &str, value: impl AsRef<Path>) -> Self {
        self.environment.push((name.to_owned(), value.as_ref().display().to_string()));
        self
    }

    /// Adds a shell command that runs before the server, in the same process, after any commands added
    /// earlier.
    #[must_use]
    pub fn run_first(mut self, shell: &str) -> Self {
        const EXEC_SERVER: &str = "exec \"$@\"";
        let before = self.wrapper.get(2).and_then(|line| line.strip_suffix(EXEC_SERVER));
        let line = format!("{}{shell} && {EXEC_SERVER}", before.unwrap_or_default());
        self.wrapper = ["sh", "-c", &line, "sh"].map(ToOwned::to_owned).into();
        self
    }

    /// Runs the server through a program, which is given with its own arguments.
    #[must_use]
    pub fn wrapped_by(mut self, program: &[&str]) -> Self {
        self.wrapper = program.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Passes `socket` to the server as socket activation does, as `sockets` inherited descriptors with
    /// `names` as `LISTEN_FDNAMES`.
    #[must_use]
    pub fn inheriting(self, socket: impl Into<OwnedFd>, sockets: usize, names: Option<&str>) -> Self {
        let names = names.map(|names| format!("LISTEN_FDNAMES={names}")).unwrap_or_default();
        let descriptors = (0..sockets).map(|index| format!("{}<&0 ", 3 + index)).collect::<String>();
        let environment = format!("export LISTEN_PID=$$ LISTEN_FDS={sockets} {names}");
        let mut launch = self.run_first(&format!("{environment} && exec {descriptors} 0</dev/null"));
        launch.stdin = Some(socket.into());
        launch
    }

    /// Leaves the log unread, so that the pipe eventually fills.
    #[must_use]
    pub fn with_unread_log(mut self) -> Self {
        self.reads_log = false;
        self
    }

    /// Uses another build of the server.
    #[must_use]
    pub fn with_binary(self, binary: PathBuf) -> Self {
        Self { binary, ..self }
    }

    /// Starts the server and waits for its banner.
    ///
    /// # Panics
    /// Panics if the server does not start.
    #[must_use]
    #[track_caller]
    pub fn start(self) -> RunningServer {
        self.spawn().await_banner()
    }

    /// Starts the server without waiting for its banner.
    ///
    /// # Panics
    /// Panics if the binary does not exist.
    #[must_use]
    #[track_caller]
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
        let mut command = match self.wrapper.split_first() {
            Some((shell, arguments)) => {
                let mut command = Command::new(shell);
                command.args(arguments).arg(&self.binary);
                command
            }
            None => Command::new(&self.binary),
        };
        clear_environment(&mut command);
        command.args(&self.arguments).envs(self.environment);
        let mut child = command
            .stdin(self.stdin.map_or_else(Stdio::null, Stdio::from))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server can be started");
        let stdout = child.stdout.take().expect("stdout is piped");
        // Leave the pipe in `child` if the log is not read: it then stays open as long as `child` exists.
        let stderr = if self.reads_log { child.stderr.take() } else { None };
        let logs = stderr.map_or_else(Logs::default, Logs::collect);
        StartingServer { process: Process::new(child), stdout, logs, redis: self.redis }
    }
}

/// Server process whose banner has not been read yet.
#[derive(Debug)]
pub struct StartingServer {
    pub process: Process,
    stdout: ChildStdout,
    /// Log output so far.
    pub logs: Logs,
    redis: Option<Redis>,
}

impl StartingServer {
    /// Waits until the server accepts connections.
    ///
    /// # Panics
    /// Panics if the server does not start.
    #[must_use]
    #[track_caller]
    pub fn await_banner(self) -> RunningServer {
        let Self { process, stdout, logs, redis } = self;
        let banner = read_banner(stdout)
            .unwrap_or_else(|| panic!("the server printed no banner; its log: {}", logs.text()));
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
#[must_use]
pub fn tests_use_redis() -> bool {
    std::env::var_os("ENCKE_TESTS_ENGINE").is_some_and(|engine| engine == "redis")
}

/// Removes variables of the test's own environment that would configure the server. `ENCKE_TESTS_PARK`, which
/// sets `parking.after` for all servers that do not set it, has been read by then.
fn clear_environment(command: &mut Command) {
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
    let rest = banner.split_once(scheme).expect("the banner contains the address").1;
    let end = rest.find('/').expect("a path follows the address");
    rest[..end].parse().expect("the banner's address is valid")
}

impl RunningServer {
    /// Starts a server with these settings (`key=value`).
    #[must_use]
    #[track_caller]
    pub fn with(settings: &[&str]) -> Self {
        Launch::with(settings).start()
    }

    /// Connects a new stock client and reads its greeting.
    #[must_use]
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::connect(self.public, "")
    }

    /// Like [`client`](Self::client), from this source address.
    #[must_use]
    #[track_caller]
    pub fn client_from(&self, source: &str) -> Client {
        Client::over(Dial::from(source).connect(self.public), "")
    }

    /// Connects a stock client that resumes its session.
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

    /// Waits until the session no longer exists.
    #[track_caller]
    pub fn await_removal(&self, session: &str) {
        until(format!("{session} is removed"), || self.admin.phase(session).is_none());
    }

    /// Creates a session whose client has disconnected without closing it, and waits until it is suspended.
    #[must_use]
    #[track_caller]
    pub fn suspended_session(&self) -> Hello {
        let hello = self.client().drop_connection();
        self.await_phase(&hello.session, "suspended");
        hello
    }

    /// Asserts that the server is healthy and accepts new clients.
    ///
    /// # Panics
    /// Panics if it does not.
    #[track_caller]
    pub fn assert_healthy(&self) {
        let health = self.admin.get("/healthz");
        assert_eq!(health.status, 200, "{health:?}");
        let mut client = self.client();
        assert!(!client.hello.recovered);
        client.send(r#"{"close":{}}"#);
        assert_eq!(client.close_code(), Some(1000));
    }
}

impl Drop for RunningServer {
    /// Fails the test if the server has panicked, for example because of the order of locks. A panic of a task
    /// ends only its connection, so the test might not notice it.
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
///
/// # Panics
/// Panics if the binary cannot be started or does not exit.
#[must_use]
pub fn run_to_end(arguments: &[&str], environment: &[(&str, &str)]) -> std::process::Output {
    let mut command = Command::new(binaries::encke());
    clear_environment(&mut command);
    command.args(arguments).envs(environment.iter().copied()).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("the server can be started");
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let read = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = pipe.expect("the stream is piped").read_to_end(&mut bytes);
            bytes
        })
    };
    let stdout = read(stdout.map(|pipe| Box::new(pipe) as _));
    let stderr = read(stderr.map(|pipe| Box::new(pipe) as _));
    let status = Process::new(child).await_exit(TIMEOUT);
    let bytes = |thread: std::thread::JoinHandle<Vec<u8>>| thread.join().expect("reading does not panic");
    std::process::Output { status, stdout: bytes(stdout), stderr: bytes(stderr) }
}
