//! The memory that this process may use: limits of the process (`ulimit -d`, `ulimit -v`), of its control group (batch systems and
//! containers set them), and of the machine.

use std::fmt;
use std::fs::read_to_string;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use crate::limits::{MEMORY_BYTES_DEFAULT, MEMORY_BYTES_MIN, MEMORY_SHARE};

/// What sets a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitOrigin {
    /// `RLIMIT_DATA`.
    Data,
    /// `RLIMIT_AS`.
    AddressSpace,
    /// The control group of the process, or one above.
    ControlGroup,
    /// The memory of the machine.
    Machine,
}

/// The lowest limit of a node's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryLimit {
    bytes: u64,
    origin: LimitOrigin,
}

impl MemoryLimit {
    /// The limit of one of so many nodes that share the machine and the control group.
    pub(crate) fn of_process(nodes: usize) -> MemoryLimit {
        let own = |resource, origin| Some(MemoryLimit { bytes: getrlimit(resource).current?, origin });
        let nodes = nodes.max(1) as u64;
        let shared = |bytes: u64, origin| MemoryLimit { bytes: bytes / nodes, origin };
        let machine = rustix::system::sysinfo();
        let machine = machine.totalram as u64 * u64::from(machine.mem_unit);
        let group = control_group_bytes(|path| read_to_string(path).ok());
        let of_process = [
            own(Resource::Data, LimitOrigin::Data),
            own(Resource::As, LimitOrigin::AddressSpace),
            group.map(|bytes| shared(bytes, LimitOrigin::ControlGroup)),
        ];
        let all = of_process.into_iter().flatten();
        let machine = shared(machine, LimitOrigin::Machine);
        all.fold(machine, |least, one| if one.bytes < least.bytes { one } else { least })
    }

    /// The default memory budget of a node, in bytes.
    pub(crate) fn default_budget(&self) -> u64 {
        (self.bytes / MEMORY_SHARE).clamp(MEMORY_BYTES_MIN, MEMORY_BYTES_DEFAULT)
    }

    /// Whether a budget leaves little of it for the indexes, the connections and the program: less than half.
    pub(crate) fn is_low_for(&self, budget_bytes: u64) -> bool {
        budget_bytes > self.bytes / 2
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemoryLimit { bytes, origin } = self;
        let mib = bytes >> 20;
        match origin {
            LimitOrigin::Data => write!(f, "this process may use {mib} MiB of memory (`ulimit -d`)"),
            LimitOrigin::AddressSpace => write!(f, "this process may use {mib} MiB of memory (`ulimit -v`)"),
            LimitOrigin::ControlGroup => {
                write!(f, "this node may use {mib} MiB of memory (the limit of its control group)")
            }
            LimitOrigin::Machine => {
                write!(f, "this node may use {mib} MiB of memory (the machine has no more)")
            }
        }
    }
}

/// The lowest limit of the control groups of a process, in bytes, from what `read` finds in files: `/proc/self/cgroup` lists the groups.
/// Version 2 has one hierarchy, and version 1 has one for memory.
fn control_group_bytes(read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let listed = read(Path::new("/proc/self/cgroup"))?;
    let of_line = |line: &str| -> Option<(&'static str, &'static str, String)> {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let path = path.trim_start_matches('/').to_owned();
        match controllers {
            "" => Some(("/sys/fs/cgroup", "memory.max", path)),
            _ if controllers.split(',').any(|one| one == "memory") => {
                Some(("/sys/fs/cgroup/memory", "memory.limit_in_bytes", path))
            }
            _ => None,
        }
    };
    // A container may see the path of its group on the host, where its own root has the limit.
    let limits = listed.lines().filter_map(of_line).flat_map(|(hierarchy, file, path)| {
        let groups = Path::new(&path).ancestors().map(|group| Path::new(hierarchy).join(group).join(file));
        groups.filter_map(|file| read(&file)?.trim().parse().ok()).collect::<Vec<u64>>()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn limit(bytes: u64) -> MemoryLimit {
        MemoryLimit { bytes, origin: LimitOrigin::Data }
    }

    #[test]
    fn default_budget_is_a_quarter_of_a_low_limit() {
        assert_eq!(limit(300_000 << 10).default_budget(), 75_000 << 10);
        assert_eq!(limit(64 << 30).default_budget(), MEMORY_BYTES_DEFAULT);
        assert_eq!(limit(1 << 20).default_budget(), MEMORY_BYTES_MIN);
        assert!(limit(300 << 20).is_low_for(160 << 20));
        assert!(!limit(300 << 20).is_low_for(limit(300 << 20).default_budget()));
    }

    #[test]
    fn process_has_a_limit_which_nodes_share() {
        let (one, four) = (MemoryLimit::of_process(1), MemoryLimit::of_process(4));
        assert!(one.bytes > 0 && four.bytes <= one.bytes, "{one:?} {four:?}");
    }

    #[test]
    fn lowest_limit_of_control_groups_is_found() {
        let bytes = |files: &[(&str, &str)]| {
            let files: BTreeMap<&Path, &str> =
                files.iter().map(|(path, text)| (Path::new(*path), *text)).collect();
            control_group_bytes(|path| files.get(path).map(|text| (*text).to_owned()))
        };
        let listed = ("/proc/self/cgroup", "0::/slurm/job_7/step\n");
        assert_eq!(bytes(&[]), None);
        assert_eq!(bytes(&[listed]), None);
        let job = ("/sys/fs/cgroup/slurm/job_7/memory.max", "536870912\n");
        let step = ("/sys/fs/cgroup/slurm/job_7/step/memory.max", "max\n");
        let all = ("/sys/fs/cgroup/slurm/memory.max", "1073741824\n");
        assert_eq!(bytes(&[listed, step, job, all]), Some(512 << 20));
        let listed = ("/proc/self/cgroup", "5:cpu,cpuacct:/a\n9:memory:/a/b\n");
        let group = ("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
        let container = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n");
        assert_eq!(bytes(&[listed, group, container]), Some(256 << 20));
    }
}
