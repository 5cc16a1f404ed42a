//! Which processor runs what.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::Failure;

/// The first two processors that this process may use: one for the server under test, one for all else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    pub(crate) server: usize,
    pub(crate) client: usize,
}

/// The calling thread.
const SELF: Pid = Pid::from_raw(0);

impl Placement {
    /// Chooses, and moves this thread to its place.
    pub(crate) fn choose() -> Result<Self, Failure> {
        let allowed = sched_getaffinity(SELF)?;
        let mut cpus = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false));
        let (Some(server), Some(client)) = (cpus.next(), cpus.next()) else {
            return Err("two processors are needed: one for the server, one for its clients".into());
        };
        move_to(client)?;
        Ok(Self { server, client })
    }

    /// Does something, like starting a process that inherits it, with this thread in the server's place.
    pub(crate) fn in_servers_place<T>(&self, act: impl FnOnce() -> T) -> Result<T, Failure> {
        move_to(self.server)?;
        let result = act();
        move_to(self.client)?;
        Ok(result)
    }
}

fn move_to(cpu: usize) -> nix::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    sched_setaffinity(SELF, &set)
}
