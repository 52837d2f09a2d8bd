//! The memory that this process may use: that of the machine, or less by the limits of its control groups, as in a
//! container.

use std::path::Path;

use crate::process::system_memory;

/// Memory that this process may use, in bytes; 0 if unknown.
#[must_use]
pub fn available_memory() -> u64 {
    let machine = system_memory();
    if sync::simulation::is_simulated() {
        return machine;
    }
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = group_limit(&groups, |path| std::fs::read_to_string(path).ok());
    limit.map_or(machine, |limit| limit.min(machine))
}

/// The lowest memory limit among the control groups of `groups`, the contents of `/proc/self/cgroup`, and their parents.
/// `read` returns the contents of a file.
fn group_limit(groups: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let limits_of = |line: &str| -> Option<u64> {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        // The line of version 2 names no controllers.
        let (root, file) = if controllers.is_empty() {
            ("/sys/fs/cgroup", "memory.max")
        } else if controllers.split(',').any(|controller| controller == "memory") {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            return None;
        };
        // In a container, the path may be one outside of it. The root is the container's own group then.
        let limit = |group: &Path| {
            let group = group.strip_prefix("/").ok()?;
            read(&Path::new(root).join(group).join(file))?.trim().parse::<u64>().ok()
        };
        Path::new(path).ancestors().filter_map(limit).min()
    };
    groups.lines().filter_map(limits_of).min()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::group_limit;

    fn limit(groups: &str, files: &[(&str, &str)]) -> Option<u64> {
        let read = |path: &Path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        };
        group_limit(groups, read)
    }

    #[test]
    fn the_lowest_limit_counts() {
        let version_2 = "0::/pods/one\n";
        assert_eq!(limit(version_2, &[]), None);
        assert_eq!(limit(version_2, &[("/sys/fs/cgroup/pods/one/memory.max", "max\n")]), None);
        let files = [
            ("/sys/fs/cgroup/pods/one/memory.max", "max\n"),
            ("/sys/fs/cgroup/pods/memory.max", "3000\n"),
            ("/sys/fs/cgroup/memory.max", "4000\n"),
        ];
        assert_eq!(limit(version_2, &files), Some(3000));
        let version_1 = "5:cpu,cpuacct:/other\n4:memory:/outside\n0::/\n";
        let own = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2000\n");
        assert_eq!(limit(version_1, &[own]), Some(2000));
        assert_eq!(limit(version_1, &[own, ("/sys/fs/cgroup/memory.max", "1000")]), Some(1000));
    }
}
