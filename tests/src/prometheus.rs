//! A private Prometheus that scrapes a server and stores its data in a temporary directory.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::http::{HttpResponse, send_request};
use crate::port::Port;
use crate::process::Process;
use crate::waiting::until;

#[derive(Debug)]
pub struct Prometheus {
    _process: Process,
    _directory: TempDir,
    port: Port,
}

impl Prometheus {
    /// Starts a Prometheus that scrapes `target` every second as the job `encke`, and evaluates these rules.
    pub fn scraping(target: SocketAddr, rules: &Path) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be created");
        let port = Port::reserve();
        let config = directory.path().join("prometheus.yml");
        let rules = rules.display();
        let text = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}\nrule_files: ['{rules}']\n\
             scrape_configs:\n  - job_name: encke\n    static_configs: [{{ targets: ['{target}'] }}]\n"
        );
        fs::write(&config, text).expect("the file can be written");
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()))
            .arg(format!("--web.listen-address={}", port.address))
            .arg("--log.level=warn");
        let prometheus = Self { _process: Process::start(&mut command), _directory: directory, port };
        until("Prometheus is ready", || prometheus.is_up());
        prometheus
    }

    fn is_up(&self) -> bool {
        std::net::TcpStream::connect(self.port.address).is_ok() && self.request("/-/ready").status == 200
    }

    /// Sends `GET path` to the HTTP API and returns the data.
    #[track_caller]
    pub fn get(&self, path: &str) -> Value {
        let mut answer = self.request(path).json();
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        answer["data"].take()
    }

    /// Evaluates an expression at the current time and returns its series.
    #[track_caller]
    pub fn query(&self, expression: &str) -> Vec<Value> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let data = self.get(&format!("/api/v1/query?query={encoded}"));
        data["result"].as_array().expect("a vector of series").clone()
    }

    /// Sends `GET path` as HTTP/1.0, so that the response is not chunked.
    fn request(&self, path: &str) -> HttpResponse {
        let address = self.port.address;
        send_request(address, &format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n"))
    }
}
