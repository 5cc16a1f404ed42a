use std::path::{Path, PathBuf};

use encke_tests::process::ProcessOutput;
use encke_tests::server::{IN_MEMORY, run_to_end};
use encke_tests::{Launch, RunningServer};
use tempfile::TempDir;

// Bayeux clients.
mod bayeux;
// Unusable snapshot files, and concurrent processes.
mod files;
// Clients of the `json` dialect, on each transport.
mod json;

pub(crate) use json::{next_message, resume_session};

const MOVED: u16 = 4008;

/// Server with a snapshot in its own directory.
pub(crate) struct RestartableServer {
    folder: TempDir,
    pub(crate) settings: Vec<String>,
    pub(crate) server: RunningServer,
}

impl RestartableServer {
    /// Starts a server with these settings. It uses the memory engine unless the settings choose one: a
    /// private Redis would be empty after the restart.
    #[track_caller]
    pub(crate) fn with(settings: &[&str]) -> Self {
        Self::launched(settings, |launch| launch)
    }

    /// Like [`Self::with`]; `prepare` changes how the first server is started.
    #[track_caller]
    fn launched(settings: &[&str], prepare: impl FnOnce(Launch) -> Launch) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory can be created");
        let has_engine = settings.iter().any(|setting| setting.starts_with("engine."));
        let engine = if has_engine { &[][..] } else { &[IN_MEMORY] };
        let settings: Vec<_> = engine.iter().chain(settings).map(|setting| (*setting).to_owned()).collect();
        let server = prepare(launch("127.0.0.1:0", &folder.path().join("snapshot"), &settings)).start();
        Self { folder, settings, server }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("snapshot")
    }

    /// Returns the names of the files in the directory, except the lock.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).expect("the directory can be listed");
        let names = entries.map(|entry| {
            entry.expect("the entry can be read").file_name().into_string().expect("file names are text")
        });
        let mut names: Vec<_> = names.filter(|name| name != "snapshot.lock").collect();
        names.sort();
        names
    }

    /// Shuts down the server and asserts that it has written a snapshot.
    #[track_caller]
    pub(crate) fn stop(&mut self) {
        self.server.stop();
        assert!(self.path().exists(), "{}", self.server.logs.text());
    }

    /// Runs `encke snapshot show`.
    pub(crate) fn show_snapshot(&self) -> ProcessOutput {
        run_to_end(&["snapshot", "show", &self.path().display().to_string()], &[])
    }

    /// Starts the next process.
    #[track_caller]
    pub(crate) fn start(&mut self) {
        self.server = launch(&self.server.public.to_string(), &self.path(), &self.settings).start();
    }

    #[track_caller]
    pub(crate) fn restart(&mut self) {
        self.stop();
        self.start();
        assert_eq!(self.files(), [""; 0], "the snapshot is consumed");
    }
}

fn launch(address: &str, path: &Path, settings: &[String]) -> Launch {
    let launch = Launch::listening_on(address).set(&format!("shutdown.snapshot={}", path.display()));
    settings.iter().fold(launch, |launch, setting| launch.set(setting))
}
