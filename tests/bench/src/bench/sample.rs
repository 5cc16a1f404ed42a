//! Resource usage of a process, as reported by the system.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use nix::errno::Errno;
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

use crate::BenchFailure;

/// Returns the CPU time of all threads, including those that have exited, with nanosecond resolution.
pub(crate) fn cpu_time(pid: i32) -> Result<Duration, BenchFailure> {
    Ok(Duration::from(clock_getcpuclockid(Pid::from_raw(pid))?.now()?))
}

/// Returns the resident memory in bytes. `smaps_rollup` is exact to the page; `statm` may be off by 64 pages
/// per CPU.
pub(crate) fn resident_bytes(pid: i32) -> Result<u64, BenchFailure> {
    let mappings = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let kilobytes =
        mappings.lines().find_map(|line| line.strip_prefix("Rss:")?.strip_suffix("kB")?.trim().parse().ok());
    Ok(1024 * kilobytes.unwrap_or(0_u64))
}

/// Threads with the same name.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadGroup {
    pub(crate) count: u32,
    /// CPU time of the threads that are still running.
    pub(crate) cpu: Duration,
}

/// Returns all threads, by name.
pub(crate) fn threads(pid: i32) -> Result<BTreeMap<String, ThreadGroup>, BenchFailure> {
    let mut threads = BTreeMap::<String, ThreadGroup>::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?.path();
        let (Some(name), Some(schedstat)) =
            (read_task_file(&task.join("comm"))?, read_task_file(&task.join("schedstat"))?)
        else {
            continue;
        };
        let nanos = schedstat.split_whitespace().next().unwrap_or_default().parse()?;
        let named = threads.entry(name.trim_end().to_owned()).or_default();
        named.count += 1;
        named.cpu += Duration::from_nanos(nanos);
    }
    Ok(threads)
}

/// Reads a file of a thread. Returns `None` if the thread has exited since it was listed.
fn read_task_file(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || error.raw_os_error() == Some(Errno::ESRCH as i32) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_can_be_read() {
        let pid = i32::try_from(std::process::id()).expect("a process id is an i32");
        assert!(cpu_time(pid).expect("a clock") > Duration::ZERO);
        assert!(resident_bytes(pid).expect("mappings") > 100_000);
        assert!(!threads(pid).expect("tasks").is_empty());
    }
}
