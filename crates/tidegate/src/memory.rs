//! How much memory this process may use: what its cgroup allows, or what the machine has.
//!
//! Read once, at the start. Files that are missing or make no sense are passed over, never an error: this
//! only chooses a default.

use std::fmt;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Where nothing tells.
const ASSUMED_BYTES: u64 = 1 << 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryLimit {
    pub(crate) bytes: u64,
}

/// The smallest limit that applies. `root` is `/`, or a test's imitation of it.
pub(crate) fn limit(root: &Path) -> MemoryLimit {
    let smallest = cgroup_limits(root).into_iter().chain(machine_bytes(root)).min();
    MemoryLimit { bytes: smallest.unwrap_or(ASSUMED_BYTES) }
}

/// The limits of our cgroup and of all above it, of either version.
fn cgroup_limits(root: &Path) -> Vec<u64> {
    let memberships = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut limits = Vec::new();
    for line in memberships.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        if controllers.is_empty() {
            limits.extend(limits_upwards(&root.join("sys/fs/cgroup"), group, "memory.max"));
        } else if controllers.split(',').any(|controller| controller == "memory") {
            let mount = root.join("sys/fs/cgroup/memory");
            limits.extend(limits_upwards(&mount, group, "memory.limit_in_bytes"));
        }
    }
    limits
}

/// Inside a container the group's path may be the host's: what isn't there is passed over, up to the mount.
fn limits_upwards(mount: &Path, group: &str, file: &str) -> Vec<u64> {
    let normal = |component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    };
    let group: PathBuf = Path::new(group).components().filter_map(normal).collect();
    group.ancestors().filter_map(|ancestor| read_number(&mount.join(ancestor).join(file))).collect()
}

/// `max` (version 2) isn't a number; "none" of version 1 is one above any machine's memory.
fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn machine_bytes(root: &Path) -> Option<u64> {
    let meminfo = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = self.bytes >> 20;
        if mebibytes < 1024 {
            return write!(f, "{mebibytes} MiB");
        }
        let tenths = self.bytes / ((1 << 30) / 10);
        match tenths % 10 {
            0 => write!(f, "{} GiB", tenths / 10),
            tenth => write!(f, "{}.{tenth} GiB", tenths / 10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An imitation of `/` with these files, removed in the end.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("tidegate-memory-{}-{name}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Root(root)
        }

        fn limit_mib(&self) -> u64 {
            limit(&self.0).bytes >> 20
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const MACHINE: (&str, &str) = ("proc/meminfo", "MemTotal:       8388608 kB\nMemFree: 1 kB\n");

    #[test]
    fn version_2_takes_the_smallest_limit_up_the_hierarchy() {
        let files = [
            MACHINE,
            ("proc/self/cgroup", "0::/pod/container\n"),
            ("sys/fs/cgroup/pod/container/memory.max", "max\n"),
            ("sys/fs/cgroup/pod/memory.max", "536870912\n"),
            ("sys/fs/cgroup/memory.max", "1073741824\n"),
        ];
        assert_eq!(Root::new("v2", &files).limit_mib(), 512);
    }

    #[test]
    fn version_1_is_read_and_its_huge_none_ignored() {
        let files = [
            MACHINE,
            ("proc/self/cgroup", "5:cpu:/\n4:memory:/docker/not-visible-here\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n"),
        ];
        assert_eq!(Root::new("v1", &files).limit_mib(), 256);
        let unlimited = [
            MACHINE,
            ("proc/self/cgroup", "4:cpu,memory:/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        assert_eq!(Root::new("v1-none", &unlimited).limit_mib(), 8192);
    }

    #[test]
    fn nonsense_is_passed_over() {
        let files = [
            ("proc/meminfo", "MemTotal: lots\n"),
            ("proc/self/cgroup", "::\n\n0::/../../..\n4:memory\n"),
            ("sys/fs/cgroup/memory.max", "-1\n"),
        ];
        assert_eq!(Root::new("nonsense", &files).limit_mib(), 1024);
        assert_eq!(limit(Path::new("/nonexistent")).bytes, ASSUMED_BYTES);
    }

    #[test]
    fn sizes_are_told_shortly() {
        let shown = |bytes| MemoryLimit { bytes }.to_string();
        assert_eq!(
            [shown(512 << 20), shown(24 << 30), shown(25_000_000_000)],
            ["512 MiB", "24 GiB", "23.2 GiB"]
        );
    }
}
