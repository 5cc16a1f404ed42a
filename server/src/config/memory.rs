//! Default maximum number of sessions, based on the memory of the machine.

use std::fs;
use std::path::Path;

/// Approximate worst-case memory of a session with all of its data, including a full backlog of
/// unacknowledged messages.
const SESSION_BYTES: u64 = 4 * 1024;

/// Returns how many sessions fit into half of the memory that this process may use.
pub(super) fn sessions_that_fit() -> usize {
    usize::try_from(memory() / 2 / SESSION_BYTES).unwrap_or(usize::MAX)
}

/// Returns the machine's memory, or the memory limit of the process's control groups if that is lower.
fn memory() -> u64 {
    let info = rustix::system::sysinfo();
    let machine = info.totalram.saturating_mul(info.mem_unit.into());
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    machine.min(cgroup_limit(&groups, Path::new("/sys/fs/cgroup")).unwrap_or(u64::MAX))
}

/// Returns the lowest memory limit of the process's control group and its ancestors below `root`. `groups` is
/// the content of `/proc/self/cgroup`. A unit's `MemoryMax=` applies to its own group or to one of the
/// ancestors; a container sees its own group as the root.
fn cgroup_limit(groups: &str, root: &Path) -> Option<u64> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let own = root.join(own);
    let around = own.ancestors().take_while(|group| group.starts_with(root));
    around.filter_map(|group| parse_limit(&fs::read_to_string(group.join("memory.max")).ok()?)).min()
}

/// Parses a group's memory limit. Returns `None` for `max`, which means no limit.
fn parse_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn limits_are_read() {
        assert_eq!(parse_limit("1073741824\n"), Some(1 << 30));
        assert_eq!(parse_limit("max\n"), None);
    }

    #[test]
    fn lowest_limit_of_enclosing_groups_applies() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let root = folder.path().join("cgroup");
        let service = root.join("system.slice/encke.service");
        fs::create_dir_all(&service)?;
        let allowed = |groups| cgroup_limit(groups, &root);
        let own = "1:name=systemd:/elsewhere\n0::/system.slice/encke.service\n";
        assert_eq!(allowed(own), None);
        // Create a file outside of the control groups, which must be ignored.
        fs::write(folder.path().join("memory.max"), "1\n")?;
        fs::write(service.join("memory.max"), "max\n")?;
        assert_eq!(allowed(own), None);
        fs::write(root.join("system.slice/memory.max"), "3000\n")?;
        assert_eq!(allowed(own), Some(3000));
        fs::write(service.join("memory.max"), "2000\n")?;
        assert_eq!(allowed(own), Some(2000));
        fs::write(root.join("memory.max"), "1000\n")?;
        for (groups, least) in
            [(own, Some(1000)), ("0::/\n", Some(1000)), ("", Some(1000)), ("0::/gone", Some(1000))]
        {
            assert_eq!(allowed(groups), least, "{groups}");
        }
        Ok(())
    }

    #[test]
    fn this_machine_has_room_for_sessions() {
        assert!((1_000..1 << 40).contains(&sessions_that_fit()));
    }
}
