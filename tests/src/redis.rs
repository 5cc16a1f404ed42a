//! A Redis of the test's own: on a socket in a directory that goes with it, keeping nothing on disk.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use redis::{Client, Connection};
use tempfile::TempDir;

use crate::network::NetworkLink;
use crate::process::{Process, Signal};
use crate::proxy::free_address;
use crate::waiting::{TIMEOUT, eventually};

/// A running `redis-server`. It ends when this is dropped.
#[derive(Debug)]
pub struct Redis {
    process: Process,
    directory: TempDir,
    address: SocketAddr,
    options: Vec<String>,
    /// Words before its command.
    wrapper: Vec<String>,
}

impl Redis {
    /// Starts one, and waits until it answers.
    ///
    /// # Panics
    /// When it does not come up, or is not installed.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// The same with more options: `["--maxmemory", "100mb"]`.
    ///
    /// # Panics
    /// When it does not come up, or is not installed.
    #[must_use]
    #[track_caller]
    pub fn with(options: &[&str]) -> Self {
        Self::at(free_address(), &[], options)
    }

    /// One at the other end of a link. Its socket of the file system leads there past the link.
    ///
    /// # Panics
    /// When it does not come up, or is not installed.
    #[must_use]
    #[track_caller]
    pub fn behind(link: &NetworkLink) -> Self {
        let address = SocketAddr::new(link.far_address(), 6379);
        Self::at(address, &link.wrapper(), &["--protected-mode", "no"])
    }

    /// The same, whose port speaks TLS alone. The certificate and its key are read anew at each start.
    ///
    /// # Panics
    /// When it does not come up, or is not installed.
    #[must_use]
    #[track_caller]
    pub fn behind_tls(certificate: &Path, key: &Path, options: &[&str]) -> Self {
        let address = free_address();
        let (port, certificate, key) =
            (address.port().to_string(), certificate.display().to_string(), key.display().to_string());
        let tls =
            ["--port", "0", "--tls-port", &port, "--tls-cert-file", &certificate, "--tls-key-file", &key];
        Self::at(address, &[], &[&tls, options].concat())
    }

    #[track_caller]
    fn at(address: SocketAddr, wrapper: &[String], options: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let options: Vec<_> = options.iter().map(ToString::to_string).collect();
        let process = spawn(&directory, address, wrapper, &options);
        let redis = Self { process, directory, address, options, wrapper: wrapper.to_vec() };
        redis.await_up();
        redis
    }

    /// Its port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where servers find it: on a port.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Where servers find it: on a port that speaks TLS. The certificate must be for `localhost`.
    #[must_use]
    pub fn tls_url(&self) -> String {
        format!("rediss://localhost:{}", self.address.port())
    }

    /// Where servers find it: on a socket of the file system.
    #[must_use]
    pub fn socket_url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// A connection of the test's own.
    ///
    /// # Panics
    /// When it cannot be reached.
    #[must_use]
    #[track_caller]
    pub fn connect(&self) -> Connection {
        self.try_connect().expect("Redis takes connections")
    }

    /// The same, where it wants a password.
    ///
    /// # Panics
    /// When it cannot be reached.
    #[must_use]
    #[track_caller]
    pub fn connect_with(&self, password: &str) -> Connection {
        let mut connection = self.connect();
        redis::cmd("AUTH").arg(password).exec(&mut connection).expect("it is the password");
        connection
    }

    /// The directory in which it keeps what it keeps.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The process.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// It dies, and all that it had with it.
    ///
    /// # Panics
    /// When it does not die.
    #[track_caller]
    pub fn kill(&mut self) {
        self.process.signal(Signal::KILL);
        self.process.await_exit(TIMEOUT);
    }

    /// It is there again, at the same addresses.
    ///
    /// # Panics
    /// When it does not come up.
    #[track_caller]
    pub fn revive(&mut self) {
        self.process = spawn(&self.directory, self.address, &self.wrapper, &self.options);
        self.await_up();
    }

    #[track_caller]
    fn await_up(&self) {
        // It may want a password first, and says so.
        let answers = |mut connection| match redis::cmd("PING").exec(&mut connection) {
            Err(error) => (error.code() == Some("NOAUTH")).then_some(()),
            Ok(()) => Some(()),
        };
        eventually("Redis answers", || self.try_connect().ok().and_then(answers));
    }

    /// A connection of the test's own, if it takes any.
    ///
    /// # Errors
    /// Why it takes none.
    pub fn try_connect(&self) -> redis::RedisResult<Connection> {
        Client::open(format!("redis+unix://{}", self.socket().display()))?.get_connection()
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("redis.sock")
    }
}

#[track_caller]
fn spawn(directory: &TempDir, address: SocketAddr, wrapper: &[String], options: &[String]) -> Process {
    let words = [wrapper, &["redis-server".to_owned()]].concat();
    let child = Command::new(&words[0])
        .args(&words[1..])
        .args(["--bind", &address.ip().to_string(), "--port", &address.port().to_string()])
        .args(["--unixsocket", "redis.sock", "--save", "", "--appendonly", "no", "--daemonize", "no"])
        .args(options)
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Process::new(child.expect("redis-server is installed (tests/run sees to it)"))
}
