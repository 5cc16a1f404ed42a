//! Assignment of processors to the server and its clients.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::BenchFailure;

/// The first two processors that this process may use: one for the server under test, one for everything
/// else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuPlacement {
    pub(crate) server: usize,
    pub(crate) client: usize,
}

/// Stands for the calling thread.
const SELF: Pid = Pid::from_raw(0);

impl CpuPlacement {
    /// Chooses the processors, and pins this thread to the one for clients.
    pub(crate) fn choose() -> Result<Self, BenchFailure> {
        let allowed = sched_getaffinity(SELF)?;
        let mut cpus = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false));
        let (Some(server), Some(client)) = (cpus.next(), cpus.next()) else {
            return Err("two processors are needed: one for the server, one for its clients".into());
        };
        pin_to(client)?;
        Ok(Self { server, client })
    }

    /// Runs `act` with this thread on the server's processor. A process started by `act` inherits the
    /// affinity.
    pub(crate) fn on_server_cpu<T>(&self, act: impl FnOnce() -> T) -> Result<T, BenchFailure> {
        pin_to(self.server)?;
        let result = act();
        pin_to(self.client)?;
        Ok(result)
    }
}

fn pin_to(cpu: usize) -> nix::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    sched_setaffinity(SELF, &set)
}
