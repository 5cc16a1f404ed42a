//! A private Redis server: its socket is in a temporary directory, and nothing is stored on disk.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use redis::{Client, Connection};
use tempfile::TempDir;

use crate::network::NetworkLink;
use crate::port::Port;
use crate::process::{Process, Signal, wrapped};
use crate::waiting::eventually;

#[derive(Debug)]
pub struct Redis {
    process: Process,
    directory: TempDir,
    port: Port,
    command: Command,
}

impl Redis {
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts Redis with additional options, such as `["--maxmemory", "100mb"]`.
    pub fn with(options: &[&str]) -> Self {
        Self::at(Port::reserve(), &[], options)
    }

    /// Starts Redis so that each write is on disk before its reply. With `appendfsync everysec`, Redis delays
    /// writes by up to two seconds while the disk is busy.
    pub fn persistent() -> Self {
        Self::with(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// Starts Redis at the far end of a link. Its Unix socket bypasses the link.
    pub fn behind(link: &NetworkLink) -> Self {
        Self::at(Port::beyond(link, 6379), &link.wrapper(), &["--protected-mode", "no"])
    }

    /// Starts Redis with a port that accepts only TLS. The certificate and its key are read again at each
    /// start.
    pub fn behind_tls(certificate: &Path, key: &Path, options: &[&str]) -> Self {
        let reserved = Port::reserve();
        let port = reserved.address.port().to_string();
        let [certificate, key] = [certificate, key].map(|path| path.display().to_string());
        let tls =
            ["--port", "0", "--tls-port", &port, "--tls-cert-file", &certificate, "--tls-key-file", &key];
        Self::at(reserved, &[], &[&tls, options].concat())
    }

    fn at(port: Port, wrapper: &[String], options: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be created");
        let mut command = wrapped(wrapper, "redis-server");
        command
            .args(["--bind", &port.address.ip().to_string(), "--port", &port.address.port().to_string()])
            .args(["--unixsocket", "redis.sock", "--save", "", "--appendonly", "no", "--daemonize", "no"])
            .args(options)
            .current_dir(directory.path());
        let redis = Self { process: Process::start(&mut command), directory, port, command };
        redis.await_up();
        redis
    }

    pub fn address(&self) -> SocketAddr {
        self.port.address
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Returns the URL of the server's TLS port. The certificate must be for `localhost`.
    pub fn tls_url(&self) -> String {
        format!("rediss://localhost:{}", self.address().port())
    }

    pub fn socket_url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Opens a connection for the test itself.
    pub fn connect(&self) -> Connection {
        self.try_connect().expect("Redis accepts connections")
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Kills Redis. Its data is lost.
    pub fn kill(&mut self) {
        self.process.signal(Signal::KILL);
        self.process.await_exit();
    }

    /// Starts Redis again, at the same addresses.
    pub fn restart(&mut self) {
        self.process = Process::start(&mut self.command);
        self.await_up();
    }

    fn await_up(&self) {
        // NOAUTH also shows that Redis is up: it only requires a password.
        let answers = |mut connection| match redis::cmd("PING").exec(&mut connection) {
            Err(error) => (error.code() == Some("NOAUTH")).then_some(()),
            Ok(()) => Some(()),
        };
        eventually("Redis answers", || self.try_connect().ok().and_then(answers));
    }

    pub fn try_connect(&self) -> redis::RedisResult<Connection> {
        Client::open(format!("redis+unix://{}", self.socket().display()))?.get_connection()
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("redis.sock")
    }
}
