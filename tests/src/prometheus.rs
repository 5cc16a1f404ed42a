//! A private Prometheus that scrapes a server and stores its data in a temporary directory.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::admin::send_request;
use crate::process::Process;
use crate::proxy::free_address;
use crate::waiting::until;

/// Running `prometheus`. It is killed when this is dropped.
#[derive(Debug)]
pub struct Prometheus {
    _process: Process,
    _directory: TempDir,
    address: SocketAddr,
}

impl Prometheus {
    /// Starts a Prometheus that scrapes `target` every second as the job `encke`, and evaluates these rules.
    ///
    /// # Panics
    /// Panics if Prometheus does not start or is not installed.
    #[must_use]
    #[track_caller]
    pub fn scraping(target: SocketAddr, rules: &Path) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be created");
        let address = free_address();
        let config = directory.path().join("prometheus.yml");
        let rules = rules.display();
        let text = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}\nrule_files: ['{rules}']\n\
             scrape_configs:\n  - job_name: encke\n    static_configs: [{{ targets: ['{target}'] }}]\n"
        );
        fs::write(&config, text).expect("the file can be written");
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=warn")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("prometheus is installed");
        let prometheus = Self { _process: Process::new(child), _directory: directory, address };
        until("Prometheus is ready", || prometheus.is_up());
        prometheus
    }

    fn is_up(&self) -> bool {
        std::net::TcpStream::connect(self.address).is_ok() && self.request("/-/ready").0 == 200
    }

    /// Sends `GET path` to the HTTP API and returns the data.
    ///
    /// # Panics
    /// Panics if the response is an error.
    #[must_use]
    #[track_caller]
    pub fn get(&self, path: &str) -> Value {
        let (status, body) = self.request(path);
        let answer: Value = serde_json::from_str(&body).expect("the response is JSON");
        assert_eq!((status, answer["status"].as_str()), (200, Some("success")), "{path}: {answer}");
        answer["data"].clone()
    }

    /// Evaluates an expression at the current time and returns its series.
    ///
    /// # Panics
    /// Panics if the expression is not a vector.
    #[must_use]
    #[track_caller]
    pub fn query(&self, expression: &str) -> Vec<Value> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let data = self.get(&format!("/api/v1/query?query={encoded}"));
        data["result"].as_array().expect("a vector of series").clone()
    }

    /// Sends `GET path` as HTTP/1.0, so that the response is not chunked. Returns its status and body.
    #[track_caller]
    fn request(&self, path: &str) -> (u16, String) {
        let answer =
            send_request(self.address, &format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address));
        (answer.status, answer.body)
    }
}
