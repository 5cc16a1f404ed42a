//! A process that ends with the test, its signals, and what the kernel tells about it.

use std::fs;
use std::process::{Child, ExitStatus};
use std::time::Duration;

pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

use crate::waiting::{eventually_within, let_pass, until};

/// Ends the process when it is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// This child, from now on.
    #[must_use]
    pub fn new(child: Child) -> Self {
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

    /// Stops the process until `meanwhile` is over, as if the machine had been suspended. Returns what that has returned.
    ///
    /// # Panics
    /// When it does not stop.
    #[track_caller]
    pub fn while_stopped<R>(&self, meanwhile: impl FnOnce() -> R) -> R {
        self.signal(Signal::STOP);
        // One thread takes the signal and tells the others, which run on until then.
        until("every thread has stopped", || self.thread_states().iter().all(|state| *state == 'T'));
        let result = meanwhile();
        self.signal(Signal::CONT);
        result
    }

    /// Stops the process for this long.
    pub fn freeze(&self, time: Duration) {
        self.while_stopped(|| let_pass(time));
    }

    /// What each thread is doing, by its letter in proc(5).
    fn thread_states(&self) -> Vec<char> {
        self.read_for_each_thread("stat").filter_map(|stat| stat.rsplit_once(") ")?.1.chars().next()).collect()
    }

    /// What proc(5) has of each thread in this file.
    fn read_for_each_thread(&self, file: &str) -> impl Iterator<Item = String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("the process is there");
        tasks.filter_map(move |task| fs::read_to_string(task.ok()?.path().join(file)).ok())
    }

    /// The names of its threads.
    ///
    /// # Panics
    /// When it is gone.
    #[must_use]
    pub fn thread_names(&self) -> Vec<String> {
        self.read_for_each_thread("comm").map(|name| name.trim_end().to_owned()).collect()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not end within `limit`.
    #[track_caller]
    pub fn await_exit(&mut self, limit: Duration) -> ExitStatus {
        eventually_within(limit, "the end of the process", || self.try_wait())
    }

    /// How it ended, if it has.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("our own child can be waited for")
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How many descriptors it has open.
    ///
    /// # Panics
    /// When it is gone.
    #[must_use]
    pub fn open_descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("the process is there").count()
    }

    /// Its resident memory, once what is free has been given back: after a second, bit by bit.
    ///
    /// # Panics
    /// When it is gone, or its memory falls for minutes.
    #[must_use]
    pub fn settled_bytes(&self) -> u64 {
        let mut last = self.resident_bytes();
        eventually_within(Duration::from_secs(120), "free memory has been given back", || {
            let_pass(Duration::from_secs(3));
            let before = std::mem::replace(&mut last, self.resident_bytes());
            // A hundredth comes and goes.
            (last + last / 100 >= before).then_some(last)
        })
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
