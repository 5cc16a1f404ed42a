//! nginx and HAProxy, with the example configurations of `deploy/proxies`.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::RunningServer;
use crate::process::Process;
use crate::tls::Certificate;
use crate::waiting::until;

/// Proxy in front of a server. It is killed when this is dropped.
#[derive(Debug)]
pub struct Proxy {
    _process: Process,
    _files: TempDir,
    /// Address that clients connect to.
    pub address: SocketAddr,
}

impl Proxy {
    /// Starts nginx with this certificate and the example configuration.
    ///
    /// # Panics
    /// Panics if nginx does not start, or if the example no longer contains what is replaced in it.
    #[must_use]
    pub fn nginx(server: &RunningServer, certificate: &Certificate) -> Self {
        let files = TempDir::new().expect("a temporary directory");
        let (pem, key) = certificate.write(files.path());
        let address = free_address();
        let site = ConfigTemplate::read("nginx.conf")
            .replace("server 127.0.0.1:8000;", &format!("server {};", server.public))
            .replace("listen 443 ssl;", &format!("listen {address} ssl;"))
            .replace("/etc/nginx/encke.pem", &pem.display().to_string())
            .replace("/etc/nginx/encke.key", &key.display().to_string());
        Self::start_nginx(&site.0, files, address)
    }

    /// Starts nginx without TLS and with its default settings, except for the upstream address and
    /// `directives`.
    ///
    /// # Panics
    /// Panics if nginx does not start.
    #[must_use]
    pub fn nginx_with_defaults(server: &RunningServer, directives: &str) -> Self {
        let files = TempDir::new().expect("a temporary directory");
        let address = free_address();
        let site = format!(
            "server {{ listen {address}; location / {{ proxy_pass http://{}; {directives} }} }}",
            server.public
        );
        Self::start_nginx(&site, files, address)
    }

    fn start_nginx(site: &str, files: TempDir, address: SocketAddr) -> Self {
        // The surrounding sections of Debian's nginx.conf, adapted to an unprivileged single process.
        let directory = files.path().display();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {directory}/{kind};"))
            .join(" ");
        let config = format!(
            "daemon off; master_process off; pid {directory}/pid; error_log {directory}/error.log; events {{}} \
             http {{ access_log off; {temporary} {site} }}"
        );
        let path = files.path().join("nginx.conf");
        fs::write(&path, config).expect("the file can be written");
        let mut command = Command::new("nginx");
        command.arg("-c").arg(path).arg("-e").arg(files.path().join("error.log"));
        Self::start(command, files, address)
    }

    /// Starts `HAProxy` with this certificate and the example configuration.
    ///
    /// # Panics
    /// Panics if `HAProxy` does not start, or if the example no longer contains what is replaced in it.
    #[must_use]
    pub fn haproxy(server: &RunningServer, certificate: &Certificate) -> Self {
        let files = TempDir::new().expect("a temporary directory");
        let (pem, key) = certificate.write(files.path());
        let both = files.path().join("both.pem");
        let text = |path: &Path| fs::read_to_string(path).expect("the file can be read");
        fs::write(&both, text(&pem) + &text(&key)).expect("the file can be written");
        let address = free_address();
        let config = ConfigTemplate::read("haproxy.cfg")
            .replace("server encke 127.0.0.1:8000", &format!("server encke {}", server.public))
            .replace("check port 8001", &format!("check port {}", server.admin.address().port()))
            .replace("bind :443", &format!("bind {address}"))
            .replace("/etc/haproxy/encke.pem", &both.display().to_string())
            .replace("maxconn 100000", "maxconn 100");
        let path = files.path().join("haproxy.cfg");
        fs::write(&path, config.0).expect("the file can be written");
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(path);
        Self::start(command, files, address)
    }

    fn start(mut command: Command, files: TempDir, address: SocketAddr) -> Self {
        let output = files.path().join("output");
        let log = fs::File::create(&output).expect("the file can be written");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("the file can be duplicated")).stderr(log);
        let child =
            command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error} (tests/run installs it)"));
        let mut process = Process::new(child);
        until(format!("{command:?} listens"), || {
            let output = || fs::read_to_string(&output).unwrap_or_default();
            assert!(process.try_wait().is_none(), "{command:?} has ended: {}", output());
            TcpStream::connect(address).is_ok()
        });
        Self { _process: process, _files: files, address }
    }
}

/// Example configuration whose addresses and file names are replaced with those used by the test.
struct ConfigTemplate(String);

impl ConfigTemplate {
    fn read(name: &str) -> Self {
        let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../deploy/proxies", name].iter().collect();
        Self(fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    fn replace(self, from: &str, to: &str) -> Self {
        assert_eq!(self.0.matches(from).count(), 1, "the example contains `{from}` once");
        Self(self.0.replace(from, to))
    }
}

/// Returns a loopback address whose port is currently free. Neither the proxies nor Redis can choose a free
/// port themselves and report it.
pub(crate) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("the listener is bound")
}
