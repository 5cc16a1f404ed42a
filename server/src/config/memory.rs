//! How many sessions the machine has room for.

use std::fs;
use std::path::Path;

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
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    machine.min(allowed(&groups, Path::new("/sys/fs/cgroup")).unwrap_or(u64::MAX))
}

/// What the control groups below `root` allow the process, which `/proc/self/cgroup` says the group of. `MemoryMax=` of a unit is a limit
/// of that group, or of one around it; a container sees its own as the root.
fn allowed(groups: &str, root: &Path) -> Option<u64> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let own = root.join(own);
    let around = own.ancestors().take_while(|group| group.starts_with(root));
    around.filter_map(|group| limit(&fs::read_to_string(group.join("memory.max")).ok()?)).min()
}

/// The limit of a control group; `max` is none.
fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn limits_are_read() {
        assert_eq!(limit("1073741824\n"), Some(1 << 30));
        assert_eq!(limit("max\n"), None);
    }

    #[test]
    fn the_least_of_the_groups_around_counts() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let root = folder.path().join("cgroup");
        let service = root.join("system.slice/encke.service");
        fs::create_dir_all(&service)?;
        let allowed = |groups| allowed(groups, &root);
        let own = "1:name=systemd:/elsewhere\n0::/system.slice/encke.service\n";
        assert_eq!(allowed(own), None);
        // Beside the groups, not one of them.
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
    fn this_machine_has_room_for_some() {
        assert!((1_000..1 << 40).contains(&sessions_that_fit()));
    }
}
