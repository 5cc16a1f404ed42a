use std::path::{Path, PathBuf};

use encke_tests::server::IN_MEMORY;
use encke_tests::waiting::TIMEOUT;
use encke_tests::{Launch, RunningServer};
use tempfile::TempDir;

// Bayeux over a restart.
mod bayeux;
// Files that are not read, and processes at once.
mod files;
// The json dialect over a restart, on each transport.
mod json;

pub(crate) use json::{back, message};

const MOVED: u16 = 4008;

/// A server with a snapshot, and where that is.
pub(crate) struct Restarts {
    folder: TempDir,
    pub(crate) settings: Vec<String>,
    pub(crate) server: RunningServer,
}

impl Restarts {
    /// On the memory engine, if the settings do not say another: one that is each server's own would be empty after a restart.
    #[track_caller]
    pub(crate) fn with(settings: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let has_engine = settings.iter().any(|setting| setting.starts_with("engine."));
        let engine = if has_engine { &[][..] } else { &[IN_MEMORY] };
        let settings: Vec<_> = engine.iter().chain(settings).map(|setting| (*setting).to_owned()).collect();
        let server = launch("127.0.0.1:0", &folder.path().join("snapshot"), &settings).start();
        Self { folder, settings, server }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("snapshot")
    }

    /// What the folder has, without the lock.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text"));
        let mut names: Vec<_> = names.filter(|name| name != "snapshot.lock").collect();
        names.sort();
        names
    }

    /// Ends the process in the ordinary way.
    #[track_caller]
    pub(crate) fn stop(&mut self) {
        self.stop_before_another();
        assert!(self.path().exists(), "{}", self.server.logs.text());
    }

    /// The same, while another waits for what it writes.
    #[track_caller]
    fn stop_before_another(&mut self) {
        self.server.terminate();
        assert_eq!(self.server.await_exit(TIMEOUT).code(), Some(0));
    }

    /// Starts the next process.
    #[track_caller]
    pub(crate) fn start(&mut self) {
        self.server = self.launch().start();
    }

    fn launch(&self) -> Launch {
        launch(&self.server.public.to_string(), &self.path(), &self.settings)
    }

    #[track_caller]
    pub(crate) fn restart(&mut self) {
        self.stop();
        self.start();
        assert_eq!(self.files(), [""; 0], "it is read once");
    }
}

fn launch(address: &str, path: &Path, settings: &[String]) -> Launch {
    let launch = Launch::listening_on(address).set(&format!("shutdown.snapshot={}", path.display()));
    settings.iter().fold(launch, |launch, setting| launch.set(setting))
}
