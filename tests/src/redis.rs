//! A private Redis server: its socket is in a temporary directory, and nothing is stored on disk.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use redis::{Client, Connection};
use tempfile::TempDir;

use crate::network::NetworkLink;
use crate::process::{Process, Signal};
use crate::proxy::free_address;
use crate::waiting::{TIMEOUT, eventually};

/// Running `redis-server`. It is killed when this is dropped.
#[derive(Debug)]
pub struct Redis {
    process: Process,
    directory: TempDir,
    address: SocketAddr,
    options: Vec<String>,
    /// Command that runs `redis-server` as its last arguments; empty unless Redis is behind a link.
    wrapper: Vec<String>,
}

impl Redis {
    /// Starts Redis and waits until it answers.
    ///
    /// # Panics
    /// Panics if Redis does not start or is not installed.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts Redis with additional options, such as `["--maxmemory", "100mb"]`.
    ///
    /// # Panics
    /// Panics if Redis does not start or is not installed.
    #[must_use]
    #[track_caller]
    pub fn with(options: &[&str]) -> Self {
        Self::at(free_address(), &[], options)
    }

    /// Starts Redis so that each write is on disk before its reply. With `appendfsync everysec`, Redis delays
    /// writes by up to two seconds while the disk is busy.
    ///
    /// # Panics
    /// Panics if Redis does not start or is not installed.
    #[must_use]
    #[track_caller]
    pub fn persistent() -> Self {
        Self::with(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// Starts Redis at the far end of a link. Its Unix socket bypasses the link.
    ///
    /// # Panics
    /// Panics if Redis does not start or is not installed.
    #[must_use]
    #[track_caller]
    pub fn behind(link: &NetworkLink) -> Self {
        let address = SocketAddr::new(link.far_address(), 6379);
        Self::at(address, &link.wrapper(), &["--protected-mode", "no"])
    }

    /// Starts Redis with a port that accepts only TLS. The certificate and its key are read again at each
    /// start.
    ///
    /// # Panics
    /// Panics if Redis does not start or is not installed.
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
        let directory = tempfile::tempdir().expect("a temporary directory can be created");
        let options: Vec<_> = options.iter().map(ToString::to_string).collect();
        let process = spawn(&directory, address, wrapper, &options);
        let redis = Self { process, directory, address, options, wrapper: wrapper.to_vec() };
        redis.await_up();
        redis
    }

    /// Returns the address of the server's port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the server's port.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Returns the URL of the server's TLS port. The certificate must be for `localhost`.
    #[must_use]
    pub fn tls_url(&self) -> String {
        format!("rediss://localhost:{}", self.address.port())
    }

    /// Returns the URL of the server's Unix socket.
    #[must_use]
    pub fn socket_url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Opens a connection for the test itself.
    ///
    /// # Panics
    /// Panics if Redis cannot be reached.
    #[must_use]
    #[track_caller]
    pub fn connect(&self) -> Connection {
        self.try_connect().expect("Redis accepts connections")
    }

    /// Opens a connection for the test itself, with a password.
    ///
    /// # Panics
    /// Panics if Redis cannot be reached or rejects the password.
    #[must_use]
    #[track_caller]
    pub fn connect_with(&self, password: &str) -> Connection {
        let mut connection = self.connect();
        redis::cmd("AUTH").arg(password).exec(&mut connection).expect("the password is correct");
        connection
    }

    /// Returns the server's working directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Kills Redis. Its data is lost.
    ///
    /// # Panics
    /// Panics if the process does not exit.
    #[track_caller]
    pub fn kill(&mut self) {
        self.process.signal(Signal::KILL);
        self.process.await_exit(TIMEOUT);
    }

    /// Starts Redis again, at the same addresses.
    ///
    /// # Panics
    /// Panics if Redis does not start.
    #[track_caller]
    pub fn restart(&mut self) {
        self.process = spawn(&self.directory, self.address, &self.wrapper, &self.options);
        self.await_up();
    }

    #[track_caller]
    fn await_up(&self) {
        // NOAUTH also shows that Redis is up: it only requires a password.
        let answers = |mut connection| match redis::cmd("PING").exec(&mut connection) {
            Err(error) => (error.code() == Some("NOAUTH")).then_some(()),
            Ok(()) => Some(()),
        };
        eventually("Redis answers", || self.try_connect().ok().and_then(answers));
    }

    /// Opens a connection for the test itself.
    ///
    /// # Errors
    /// Returns the error of Redis or of the connection.
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
    Process::new(child.expect("redis-server is installed (tests/run installs it)"))
}
