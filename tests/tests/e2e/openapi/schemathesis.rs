//! schemathesis, which tests an API against its OpenAPI document, and its files in `tests/openapi/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use encke_tests::binaries;
use encke_tests::process::Process;
use serde_json::Value;
use tempfile::TempDir;

/// Time limit of a run. An idle machine needs a twentieth of it.
const RUN_TIMEOUT: Duration = Duration::from_secs(300);

/// Test of one server, with a temporary directory for its files.
#[derive(Debug)]
pub(super) struct Schemathesis {
    directory: TempDir,
    environment: Vec<(&'static str, String)>,
}

impl Schemathesis {
    pub(super) fn of(document: &str) -> Self {
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
    pub(super) fn dictionary<'a>(self, name: &str, values: impl IntoIterator<Item = &'a str>) -> Self {
        let lines: String = values.into_iter().map(|value| format!("{value:?}\n")).collect();
        fs::write(self.path(&format!("{name}.dict")), lines).expect("the file can be written");
        self
    }

    /// Sets a variable for the configuration or the hooks.
    pub(super) fn environment(mut self, name: &'static str, value: &str) -> Self {
        self.environment.push((name, value.to_owned()));
        self
    }

    pub(super) fn check_document(&self) {
        let (succeeded, output) =
            self.run(&[&files().join("check_document.py").display().to_string(), "openapi.json"]);
        assert!(succeeded, "{output}");
    }

    /// Runs all checks against the server at `url`. Returns the report and, for each `operationId`, how often
    /// the server answered with each status.
    pub(super) fn test(&self, url: &str, seed: &str) -> (String, Value) {
        let test = ["-m", "schemathesis.cli", "run", "openapi.json", "--no-color"];
        let (succeeded, output) = self.run(&[&test[..], &["--url", url, "--seed", seed]].concat());
        assert!(succeeded, "ENCKE_SEED={seed}\n{output}");
        let seen = fs::read_to_string(self.path("seen.json")).expect("the hooks wrote seen.json");
        (output, serde_json::from_str(&seen).expect("seen.json is JSON"))
    }

    fn run(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new(binaries::python());
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .env("SCHEMATHESIS_HOOKS", files().join("hooks.py"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            // Bypass any configured proxy: the server is on this machine.
            .env("NO_PROXY", "*")
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        let output = Process::start(&mut command).output(RUN_TIMEOUT);
        (output.status.success(), output.stdout + &output.stderr)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi")
}
