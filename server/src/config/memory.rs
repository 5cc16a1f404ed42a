//! How many sessions the machine has room for.

use std::fs;

/// What a session and all that belongs to it takes, roughly and at worst: a backlog that nobody has acknowledged.
const SESSION_BYTES: u64 = 4 * 1024;

/// The most sessions that fit into half of the memory that this process may use.
pub(super) fn sessions_that_fit() -> usize {
    usize::try_from(memory() / 2 / SESSION_BYTES).unwrap_or(usize::MAX)
}

/// The machine's memory, or less where a control group allows less.
fn memory() -> u64 {
    let info = rustix::system::sysinfo();
    let machine = info.totalram.saturating_mul(info.mem_unit.into());
    let allowed = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    machine.min(allowed.and_then(|text| limit(&text)).unwrap_or(u64::MAX))
}

/// The limit of a control group; `max` is none.
fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        assert_eq!(limit("1073741824\n"), Some(1 << 30));
        assert_eq!(limit("max\n"), None);
    }

    #[test]
    fn this_machine_has_room_for_some() {
        assert!((1_000..1 << 40).contains(&sessions_that_fit()));
    }
}
