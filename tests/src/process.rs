//! A process that ends with the test, its signals, and what the kernel tells about it.

use std::fs;
use std::process::{Child, ExitStatus};
use std::time::Duration;

pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

use crate::patience::{eventually_within, let_pass};

/// Ends the process when it is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    pub(crate) fn new(child: Child) -> Self {
        Self { child }
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// When the process is gone.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the process is there");
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Stops the process for this long, as if the machine had been suspended.
    pub fn freeze(&self, time: Duration) {
        self.signal(Signal::STOP);
        let_pass(time);
        self.signal(Signal::CONT);
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not end within `limit`.
    #[track_caller]
    pub fn await_exit(&mut self, limit: Duration) -> ExitStatus {
        eventually_within(limit, "the end of the process", || self.exited())
    }

    /// How it ended, if it has.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("our own child can be waited for")
    }

    /// How many descriptors it has open.
    ///
    /// # Panics
    /// When it is gone.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("the process is there").count()
    }

    /// Its resident memory.
    ///
    /// # Panics
    /// When it is gone.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("the process is there");
        let line =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the kernel tells VmRSS");
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("VmRSS is in kB");
        kib * 1024
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be over already. SIGKILL also ends a stopped process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
