//! schemathesis, which tests an API against its OpenAPI document, and its files in `tests/openapi/`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::binaries;
use crate::process::Process;

/// Time limit of a run. An idle machine needs a twentieth of it.
const RUN_TIMEOUT: Duration = Duration::from_secs(300);

/// Test of one server, with a temporary directory for its files.
#[derive(Debug)]
pub struct Schemathesis {
    directory: TempDir,
    environment: Vec<(&'static str, String)>,
}

impl Schemathesis {
    /// Prepares a test of this OpenAPI document.
    ///
    /// # Panics
    /// Panics if the files cannot be written.
    #[must_use]
    pub fn of(document: &str) -> Self {
        let this = Self {
            directory: tempfile::tempdir().expect("a temporary directory can be created"),
            environment: Vec::new(),
        };
        fs::copy(files().join("schemathesis.toml"), this.path("schemathesis.toml"))
            .expect("the file can be copied");
        fs::write(this.path("openapi.json"), document).expect("the file can be written");
        this
    }

    /// Adds a dictionary of likely parameter values. The configuration refers to it by name.
    ///
    /// # Panics
    /// Panics if the file cannot be written.
    #[must_use]
    pub fn dictionary<'a>(self, name: &str, values: impl IntoIterator<Item = &'a str>) -> Self {
        let lines: String = values.into_iter().map(|value| format!("{value:?}\n")).collect();
        fs::write(self.path(&format!("{name}.dict")), lines).expect("the file can be written");
        self
    }

    /// Sets a variable for the configuration or the hooks.
    #[must_use]
    pub fn environment(mut self, name: &'static str, value: &str) -> Self {
        self.environment.push((name, value.to_owned()));
        self
    }

    /// Checks that the document is valid OpenAPI.
    ///
    /// # Panics
    /// Panics if it is not.
    #[track_caller]
    pub fn check_document(&self) {
        let (succeeded, output) =
            self.run(&[&files().join("check_document.py").display().to_string(), "openapi.json"]);
        assert!(succeeded, "{output}");
    }

    /// Runs all checks against the server at `url`. Returns the report and, for each `operationId`, how often
    /// the server answered with each status.
    ///
    /// # Panics
    /// Panics if a check fails.
    #[track_caller]
    pub fn test(&self, url: &str, seed: &str) -> (String, Value) {
        let test = ["-m", "schemathesis.cli", "run", "openapi.json", "--no-color"];
        let (succeeded, output) = self.run(&[&test[..], &["--url", url, "--seed", seed]].concat());
        assert!(succeeded, "ENCKE_SEED={seed}\n{output}");
        let seen = fs::read_to_string(self.path("seen.json")).expect("the hooks wrote seen.json");
        (output, serde_json::from_str(&seen).expect("seen.json is JSON"))
    }

    fn run(&self, arguments: &[&str]) -> (bool, String) {
        let log = self.path("output");
        let output = File::create(&log).expect("the file can be created");
        let child = Command::new(binaries::python())
            .args(arguments)
            .current_dir(self.directory.path())
            .env("SCHEMATHESIS_HOOKS", files().join("hooks.py"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            // Bypass any configured proxy: the server is on this machine.
            .env("NO_PROXY", "*")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("the file can be duplicated"))
            .stderr(output)
            .spawn()
            .expect("Python can be started");
        let status = Process::new(child).await_exit(RUN_TIMEOUT);
        (status.success(), fs::read_to_string(log).expect("its output is text"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi")
}
