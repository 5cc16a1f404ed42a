use std::fs;

use serde::Serialize;

use crate::clock::processor_time;

/// What the process takes. What the kernel does not say is left out.
#[derive(Debug, Serialize)]
pub(super) struct Process {
    #[serde(skip_serializing_if = "Option::is_none")]
    resident_bytes: Option<u64>,
    cpu_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    descriptors: Option<u64>,
}

impl Process {
    pub(super) fn now() -> Self {
        Self {
            resident_bytes: resident_bytes(),
            cpu_ms: u64::try_from(processor_time().as_millis()).unwrap_or(u64::MAX),
            descriptors: descriptors(),
        }
    }
}

/// The second number of `/proc/self/statm`, in pages.
pub(crate) fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    pages.checked_mul(u64::try_from(rustix::param::page_size()).ok()?)
}

/// Linux says how many are open as the size of this folder, from 6.2 on; before that, 0. To list them would take longer with each connection.
fn descriptors() -> Option<u64> {
    let open = fs::metadata("/proc/self/fd").ok()?.len();
    (open > 0).then_some(open)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn the_process_takes_something() {
        let process = Process::now();
        assert!(process.resident_bytes >= Some(100_000), "{process:?}");
        let Some(before) = descriptors() else { return };
        let listed = fs::read_dir("/proc/self/fd").expect("a folder").count() as u64;
        assert!(listed.abs_diff(before) <= 64, "{listed} and {before}; other tests open files, too");
        let files: Vec<_> = (0..1000).map(|_| File::open("/proc/self/statm").expect("a file")).collect();
        assert!(descriptors() >= Some(before + 900), "{} more", files.len());
    }
}
