//! Figures of the system about this process.

use std::path::Path;

use rustix::fs::statvfs;
use rustix::param::page_size;
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};

/// Resident memory of this process in bytes; `None` if the system does not report it.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    // Pages: total, resident, …
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * page_size() as u64)
}

/// Whether this process ignores this signal. It does from its start on as a job in the background of a script, or with SIGHUP under `nohup`.
#[must_use]
pub fn is_signal_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal.as_raw() - 1) & 1 == 1
}

/// Processor time that all threads of this process have used, in seconds.
pub(crate) fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Free and total bytes of the disk of a folder, as far as programs without special rights may use it; `None` if the system does not report
/// them.
pub(crate) fn disk_bytes(folder: &Path) -> Option<(u64, u64)> {
    let disk = statvfs(folder).ok()?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    // Blocks for the superuser are in neither of the two.
    let reserved = disk.f_bfree.saturating_sub(disk.f_bavail);
    Some((free, disk.f_blocks.saturating_sub(reserved).saturating_mul(disk.f_frsize)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_has_run() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 16));
        assert!(cpu_s() > 0.0);
    }

    #[test]
    fn disk_of_a_folder_has_a_size() {
        let (free, total) = disk_bytes(Path::new("/")).unwrap();
        assert!(free <= total && total > 0, "{free} of {total}");
        assert_eq!(disk_bytes(Path::new("/nowhere/at/all")), None);
    }
}
