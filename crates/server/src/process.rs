//! Figures of the system about this process.

use rustix::param::page_size;
use rustix::time::{ClockId, clock_gettime};

/// Resident memory of this process in bytes; `None` if the system does not report it.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    // Pages: total, resident, …
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * page_size() as u64)
}

/// Processor time that all threads of this process have used, in seconds.
pub(crate) fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_has_run() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 16));
        assert!(cpu_s() > 0.0);
    }
}
