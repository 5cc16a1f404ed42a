//! Child processes that are killed when the test ends. They can be sent signals and inspected through
//! `/proc`.

use std::fs;
use std::process::{Child, ExitStatus};
use std::time::Duration;

pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

use crate::waiting::{eventually_within, let_pass, until};

/// Child process that is killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    #[must_use]
    pub fn new(child: Child) -> Self {
        Self { child }
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// Panics if the process no longer exists.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the process exists");
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Stops the process while `meanwhile` runs, as if the machine had been suspended. Returns the result of
    /// `meanwhile`.
    ///
    /// # Panics
    /// Panics if the process does not stop.
    #[track_caller]
    pub fn while_stopped<R>(&self, meanwhile: impl FnOnce() -> R) -> R {
        self.signal(Signal::STOP);
        // One thread receives the signal and stops the others, which keep running until then.
        until("every thread stops", || self.thread_states().iter().all(|state| *state == 'T'));
        let result = meanwhile();
        self.signal(Signal::CONT);
        result
    }

    /// Stops the process for `time`.
    pub fn freeze(&self, time: Duration) {
        self.while_stopped(|| let_pass(time));
    }

    /// Returns the state of each thread, as a letter of proc(5).
    fn thread_states(&self) -> Vec<char> {
        self.read_for_each_thread("stat")
            .filter_map(|stat| stat.rsplit_once(") ")?.1.chars().next())
            .collect()
    }

    /// Reads `file` of each thread's directory in `/proc`.
    fn read_for_each_thread(&self, file: &str) -> impl Iterator<Item = String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("the process exists");
        tasks.filter_map(move |task| fs::read_to_string(task.ok()?.path().join(file)).ok())
    }

    /// Returns the names of the process's threads.
    ///
    /// # Panics
    /// Panics if the process no longer exists.
    #[must_use]
    pub fn thread_names(&self) -> Vec<String> {
        self.read_for_each_thread("comm").map(|name| name.trim_end().to_owned()).collect()
    }

    /// Waits for the process to exit.
    ///
    /// # Panics
    /// Panics if the process does not exit within `limit`.
    #[track_caller]
    pub fn await_exit(&mut self, limit: Duration) -> ExitStatus {
        eventually_within(limit, "the process ends", || self.try_wait())
    }

    /// Returns the exit status if the process has exited.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child process can be waited for")
    }

    /// Returns the process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the number of open file descriptors.
    ///
    /// # Panics
    /// Panics if the process no longer exists.
    #[must_use]
    pub fn open_descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("the process exists").count()
    }

    /// Returns the resident memory in bytes, once the allocator has returned free memory to the kernel. It
    /// does so gradually, beginning after a second.
    ///
    /// # Panics
    /// Panics if the process no longer exists, or if its memory keeps falling for two minutes.
    #[must_use]
    pub fn settled_bytes(&self) -> u64 {
        let mut last = self.resident_bytes();
        eventually_within(Duration::from_secs(120), "free memory is returned to the kernel", || {
            let_pass(Duration::from_secs(3));
            let before = std::mem::replace(&mut last, self.resident_bytes());
            // Changes of up to one per cent are noise.
            (last + last / 100 >= before).then_some(last)
        })
    }

    /// Returns the resident memory in bytes.
    ///
    /// # Panics
    /// Panics if the process no longer exists.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("the process exists");
        let line =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the status has a VmRSS line");
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("VmRSS is in kB");
        kib * 1024
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have exited already. SIGKILL also terminates a stopped process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
