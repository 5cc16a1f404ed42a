//! Proxies as others have built them, with the recipes in `deploy/proxies`.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::RunningServer;
use crate::process::Process;
use crate::tls::Certificate;
use crate::waiting::until;

/// A proxy in front of a server. It ends when this is dropped.
#[derive(Debug)]
pub struct Proxy {
    _process: Process,
    _files: TempDir,
    /// Where clients connect.
    pub address: SocketAddr,
}

impl Proxy {
    /// nginx, whose certificate is this.
    ///
    /// # Panics
    /// When it does not come up, or the recipe has changed.
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

    /// nginx that has been told where to pass requests on to, and nothing else but `directives`. Without TLS.
    ///
    /// # Panics
    /// When it does not come up.
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
        // What Debian's nginx.conf says around it, for a process of one's own.
        let directory = files.path().display();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {directory}/{kind};"))
            .join(" ");
        let around = format!(
            "daemon off; master_process off; pid {directory}/pid; error_log {directory}/error.log; events {{}} \
             http {{ access_log off; {temporary} {site} }}"
        );
        let path = files.path().join("nginx.conf");
        fs::write(&path, around).expect("there is room for a file");
        let mut command = Command::new("nginx");
        command.arg("-c").arg(path).arg("-e").arg(files.path().join("error.log"));
        Self::start(command, files, address)
    }

    /// `HAProxy`, whose certificate is this.
    ///
    /// # Panics
    /// When it does not come up, or the recipe has changed.
    #[must_use]
    pub fn haproxy(server: &RunningServer, certificate: &Certificate) -> Self {
        let files = TempDir::new().expect("a temporary directory");
        let (pem, key) = certificate.write(files.path());
        let both = files.path().join("both.pem");
        let text = |path: &Path| fs::read_to_string(path).expect("it was written");
        fs::write(&both, text(&pem) + &text(&key)).expect("there is room for a file");
        let address = free_address();
        let recipe = ConfigTemplate::read("haproxy.cfg")
            .replace("server encke 127.0.0.1:8000", &format!("server encke {}", server.public))
            .replace("check port 8001", &format!("check port {}", server.admin.address().port()))
            .replace("bind :443", &format!("bind {address}"))
            .replace("/etc/haproxy/encke.pem", &both.display().to_string())
            .replace("maxconn 100000", "maxconn 100");
        let path = files.path().join("haproxy.cfg");
        fs::write(&path, recipe.0).expect("there is room for a file");
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(path);
        Self::start(command, files, address)
    }

    fn start(mut command: Command, files: TempDir, address: SocketAddr) -> Self {
        let output = files.path().join("output");
        let log = fs::File::create(&output).expect("there is room for a file");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a descriptor")).stderr(log);
        let child =
            command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error} (tests/run installs it)"));
        let mut process = Process::new(child);
        until(format!("{command:?} listens"), || {
            let said = || fs::read_to_string(&output).unwrap_or_default();
            assert!(process.try_wait().is_none(), "{command:?} has ended: {}", said());
            TcpStream::connect(address).is_ok()
        });
        Self { _process: process, _files: files, address }
    }
}

/// A recipe, whose addresses and files are exchanged for those of a test.
struct ConfigTemplate(String);

impl ConfigTemplate {
    fn read(name: &str) -> Self {
        let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../deploy/proxies", name].iter().collect();
        Self(fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    fn replace(self, from: &str, to: &str) -> Self {
        assert_eq!(self.0.matches(from).count(), 1, "the recipe has `{from}` once");
        Self(self.0.replace(from, to))
    }
}

/// One that nobody listens on at this moment: neither a proxy nor Redis can be asked for any free port.
pub(crate) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("it is bound")
}
