//! nginx and HAProxy, with the example configurations of `deploy/proxies`.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::port::Port;
use crate::process::Process;
use crate::waiting::until;
use crate::{Certificate, RunningServer};

/// How long nginx waits for a server that sends nothing, unless the example configuration says otherwise. Its
/// own default is a minute.
pub const NGINX_READ_TIMEOUT: Duration = Duration::from_secs(4);

/// Proxy in front of a server. It is killed when this is dropped.
#[derive(Debug)]
pub struct Proxy {
    _process: Process,
    _files: TempDir,
    _port: Port,
    pub address: SocketAddr,
}

impl Proxy {
    /// Starts nginx with this certificate and the example configuration.
    pub fn nginx(server: &RunningServer, certificate: &Certificate) -> Self {
        let files = TempDir::new().expect("a temporary directory");
        let (pem, key) = certificate.write(files.path());
        let port = Port::reserve();
        let replacements = [
            ("server 127.0.0.1:8000;", format!("server {};", server.public)),
            ("listen 443 ssl;", format!("listen {} ssl;", port.address)),
            ("/etc/nginx/encke.pem", pem.display().to_string()),
            ("/etc/nginx/encke.key", key.display().to_string()),
        ];
        let read_timeout = NGINX_READ_TIMEOUT.as_secs();
        let site = format!("proxy_read_timeout {read_timeout}s; {}", example("nginx.conf", &replacements));
        Self::start_nginx(&site, files, port)
    }

    /// Starts nginx without TLS and with its default settings, except for the upstream address and
    /// `directives`.
    pub fn nginx_with_defaults(server: &RunningServer, directives: &str) -> Self {
        let files = TempDir::new().expect("a temporary directory");
        let port = Port::reserve();
        let (address, server) = (port.address, server.public);
        let location = format!("location / {{ proxy_pass http://{server}; {directives} }}");
        let site = format!("server {{ listen {address}; {location} }}");
        Self::start_nginx(&site, files, port)
    }

    fn start_nginx(site: &str, files: TempDir, port: Port) -> Self {
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
        Self::start(command, files, port)
    }

    /// Starts `HAProxy` with this certificate and the example configuration.
    pub fn haproxy(server: &RunningServer, certificate: &Certificate) -> Self {
        let files = TempDir::new().expect("a temporary directory");
        let (pem, key) = certificate.write(files.path());
        let both = files.path().join("both.pem");
        let texts = [pem, key].map(|path| fs::read_to_string(path).expect("the file can be read"));
        fs::write(&both, texts.concat()).expect("the file can be written");
        let port = Port::reserve();
        let replacements = [
            ("server encke 127.0.0.1:8000", format!("server encke {}", server.public)),
            ("check port 8001", format!("check port {}", server.admin.address().port())),
            ("bind :443", format!("bind {}", port.address)),
            ("/etc/haproxy/encke.pem", both.display().to_string()),
            ("maxconn 100000", "maxconn 100".to_owned()),
        ];
        let path = files.path().join("haproxy.cfg");
        fs::write(&path, example("haproxy.cfg", &replacements)).expect("the file can be written");
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(path);
        Self::start(command, files, port)
    }

    fn start(mut command: Command, files: TempDir, port: Port) -> Self {
        let mut process = Process::start(&mut command);
        until(format!("{command:?} listens"), || {
            assert!(process.try_wait().is_none(), "{command:?} has ended: {}", process.stderr.text());
            TcpStream::connect(port.address).is_ok()
        });
        Self { _process: process, _files: files, address: port.address, _port: port }
    }
}

/// Returns an example configuration in which each of these texts is replaced, which it contains once.
fn example(name: &str, replacements: &[(&str, String)]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/proxies").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    replacements.iter().fold(text, |text, (from, to)| {
        assert_eq!(text.matches(from).count(), 1, "the example contains `{from}` once");
        text.replace(from, to)
    })
}
