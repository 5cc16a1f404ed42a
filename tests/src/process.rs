//! Child processes: each is started here, its output is collected, and it is killed when the test ends. They can
//! be sent signals and inspected through `/proc`.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

use crate::Logs;
use crate::waiting::{eventually, eventually_within, let_pass, until};

/// Child process that is killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    pub stdout: Logs,
    pub stderr: Logs,
}

/// Status and whole output of a process that has exited.
#[derive(Debug)]
pub struct ProcessOutput {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl ProcessOutput {
    /// Asserts that the process exited with this status and printed only errors, which contain these parts.
    #[track_caller]
    pub fn assert_failed(&self, code: i32, parts: &[&str]) {
        assert_eq!((self.status.code(), &*self.stdout), (Some(code), ""), "{self:?}");
        for part in parts {
            assert!(self.stderr.contains(part), "{part}: {self:?}");
        }
    }
}

/// Command that runs `program` through a wrapper, which is given with its own arguments. An empty wrapper runs
/// it directly.
pub(crate) fn wrapped(wrapper: &[String], program: impl AsRef<OsStr>) -> Command {
    let Some((first, arguments)) = wrapper.split_first() else { return Command::new(program) };
    let mut command = Command::new(first);
    command.args(arguments).arg(program);
    command
}

impl Process {
    /// Starts a program without input.
    pub fn start(command: &mut Command) -> Self {
        Self::start_with(command, Stdio::null())
    }

    /// Starts a program with this standard input.
    pub fn start_with(command: &mut Command, stdin: impl Into<Stdio>) -> Self {
        let spawned = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child =
            spawned.unwrap_or_else(|error| panic!("{command:?}: {error} (tests/run installs programs)"));
        let stdout = child.stdout.take().map(Logs::collect).expect("the output is piped");
        let stderr = child.stderr.take().map(Logs::collect).expect("the output is piped");
        Self { stdin: child.stdin.take(), child, stdout, stderr }
    }

    /// Writes a line to standard input, which must be a pipe.
    pub(crate) fn write_line(&mut self, line: impl std::fmt::Display) {
        let stdin = self.stdin.as_mut().expect("standard input is an open pipe");
        writeln!(stdin, "{line}").expect("the process is running");
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Waits for the process to exit, and returns its whole output.
    #[track_caller]
    pub fn output(mut self, limit: Duration) -> ProcessOutput {
        let status = eventually_within(limit, "the process ends", || self.try_wait());
        ProcessOutput { status, stdout: self.stdout.whole_text(), stderr: self.stderr.whole_text() }
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the process exists");
    }

    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Terminates the process, which must exit with status 0.
    #[track_caller]
    pub fn stop(&mut self) {
        self.terminate();
        let status = self.await_exit();
        assert!(status.success(), "{status}: {}", self.stderr.text());
    }

    /// Stops the process while `meanwhile` runs, as if the machine had been suspended. Returns the result of
    /// `meanwhile`.
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

    pub fn thread_names(&self) -> Vec<String> {
        self.read_for_each_thread("comm").map(|name| name.trim_end().to_owned()).collect()
    }

    #[track_caller]
    pub fn await_exit(&mut self) -> ExitStatus {
        eventually("the process ends", || self.try_wait())
    }

    /// Returns the exit status if the process has exited.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child process can be waited for")
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn open_descriptors(&self) -> usize {
        self.descriptors().count()
    }

    fn descriptors(&self) -> fs::ReadDir {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("the process exists")
    }

    /// Whether the process has this socket open. `inode` is the number in `/proc/net/tcp`.
    pub fn has_socket(&self, inode: &str) -> bool {
        let socket = format!("socket:[{inode}]");
        // A descriptor may be closed while the directory is read.
        self.descriptors()
            .flatten()
            .filter_map(|it| fs::read_link(it.path()).ok())
            .any(|it| it.as_os_str() == &*socket)
    }

    /// Returns the resident memory in bytes, once the allocator has returned free memory to the kernel. It
    /// does so gradually, beginning after a second.
    pub fn settled_bytes(&self) -> u64 {
        let mut last = self.resident_bytes();
        eventually_within(Duration::from_secs(120), "free memory is returned to the kernel", || {
            let_pass(Duration::from_secs(3));
            let before = std::mem::replace(&mut last, self.resident_bytes());
            // Changes of up to one per cent are noise.
            (last + last / 100 >= before).then_some(last)
        })
    }

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
