//! schemathesis, which tests an API by its OpenAPI document, and the files it needs: `tests/openapi/`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::binaries;
use crate::process::Process;

/// A run takes a twentieth of it, on a machine with nothing else to do.
const LIMIT: Duration = Duration::from_secs(300);

/// Tests one server, in a directory of its own.
#[derive(Debug)]
pub struct Schemathesis {
    directory: TempDir,
    environment: Vec<(&'static str, String)>,
}

impl Schemathesis {
    /// With the document that is to be tested.
    ///
    /// # Panics
    /// When its files cannot be written.
    #[must_use]
    pub fn of(document: &str) -> Self {
        let this = Self { directory: tempfile::tempdir().expect("a directory"), environment: Vec::new() };
        fs::copy(files().join("schemathesis.toml"), this.path("schemathesis.toml"))
            .expect("it can be copied");
        fs::write(this.path("openapi.json"), document).expect("it can be written");
        this
    }

    /// Values that parameters often have: a dictionary that the configuration names.
    ///
    /// # Panics
    /// When it cannot be written.
    #[must_use]
    pub fn dictionary<'a>(self, name: &str, values: impl IntoIterator<Item = &'a str>) -> Self {
        let lines: String = values.into_iter().map(|value| format!("{value:?}\n")).collect();
        fs::write(self.path(&format!("{name}.dict")), lines).expect("it can be written");
        self
    }

    /// A variable for the configuration, or the hooks.
    #[must_use]
    pub fn environment(mut self, name: &'static str, value: &str) -> Self {
        self.environment.push((name, value.to_owned()));
        self
    }

    /// Checks that the document is one.
    ///
    /// # Panics
    /// When it is not.
    #[track_caller]
    pub fn check_document(&self) {
        let (good, output) =
            self.run(&[&files().join("check_document.py").display().to_string(), "openapi.json"]);
        assert!(good, "{output}");
    }

    /// Tests the server at `url` in all ways: what it reports, and for each `operationId` how often it was answered with
    /// each status.
    ///
    /// # Panics
    /// When it finds anything.
    #[track_caller]
    pub fn test(&self, url: &str, seed: &str) -> (String, Value) {
        let test = ["-m", "schemathesis.cli", "run", "openapi.json", "--no-color"];
        let (good, output) = self.run(&[&test[..], &["--url", url, "--seed", seed]].concat());
        assert!(good, "ENCKE_SEED={seed}\n{output}");
        let seen = fs::read_to_string(self.path("seen.json")).expect("the hooks have written it");
        (output, serde_json::from_str(&seen).expect("it is JSON"))
    }

    fn run(&self, arguments: &[&str]) -> (bool, String) {
        let log = self.path("output");
        let output = File::create(&log).expect("a file");
        let child = Command::new(binaries::python())
            .args(arguments)
            .current_dir(self.directory.path())
            .env("SCHEMATHESIS_HOOKS", files().join("hooks.py"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            // What it asks is on this machine.
            .env("NO_PROXY", "*")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a file has more than one handle"))
            .stderr(output)
            .spawn()
            .expect("it can be started");
        let status = Process::new(child).await_exit(LIMIT);
        (status.success(), fs::read_to_string(log).expect("its output is text"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi")
}
