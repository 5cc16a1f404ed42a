//! Processes: resource usage of any process, limits and signals of this one, and a server that it starts as a
//! child.

mod kernel;
mod service;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub(crate) use self::kernel::{Reading, ReadingError, SampledProcess};
pub(crate) use self::service::{Service, run_shell};

/// Descriptors reserved for everything except connections.
const OTHER_DESCRIPTORS: u64 = 64;

/// Raises the descriptor limit of this process to its hard limit, and returns the number of connections for
/// which there is room.
pub(crate) fn available_descriptors() -> Result<u32, String> {
    let limits = getrlimit(Resource::RLIMIT_NOFILE);
    let (soft, hard) = limits.map_err(|error| format!("cannot read the descriptor limit: {error}"))?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
            .map_err(|error| format!("cannot raise the descriptor limit from {soft} to {hard}: {error}"))?;
    }
    Ok(u32::try_from(hard.saturating_sub(OTHER_DESCRIPTORS)).unwrap_or(u32::MAX))
}

/// Ctrl-C and SIGTERM: end a run early and report the result so far.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Starts listening. From this call on, neither signal terminates the process by default.
    pub(crate) fn listen() -> Result<Self, String> {
        let listen = |kind| signal(kind).map_err(|error| format!("cannot listen for signals: {error}"));
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
