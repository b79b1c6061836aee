//! Processor time of a process and of the children that it has waited for.
//!
//! The kernel reports it in ticks in `/proc/PID/stat` until the exit status is collected (proc(5)).

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// Ticks per second in `/proc`: fixed for user space on Linux.
const TICKS_PER_SECOND: u64 = 100;

/// Waits until the process has ended, does not collect its status, and returns its processor time.
pub fn await_end(pid: u32) -> Duration {
    let Some(id) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Duration::ZERO };
    // Interrupted waits are repeated; after any other error the caller's own wait does the waiting.
    while let Err(rustix::io::Errno::INTR) =
        waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
    {}
    of(&pid.to_string()).unwrap_or_default()
}

/// The processor time of this process's own work and of all children that it has waited for.
pub fn of_this_process() -> Duration {
    of("self").unwrap_or_default()
}

fn of(process: &str) -> Option<Duration> {
    read(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// Reads user, system, children's user and children's system time: fields 14 to 17.
fn read(stat: &str) -> Option<Duration> {
    // The second field, the program's name, is in parentheses and may contain anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let ticks: u64 =
        rest.split_ascii_whitespace().skip(11).take(4).map_while(|one| one.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_times_are_read_after_arbitrary_process_name() {
        let stat = "12 (a ) (b) S 1 12 12 0 -1 4194560 1 2 3 4 100 20 3 7 20 0 1 0 5 6 7";
        assert_eq!(read(stat), Some(Duration::from_millis(1300)));
    }

    #[test]
    fn a_busy_child_costs_time() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])
            .spawn()
            .unwrap();
        let cost = await_end(child.id());
        assert!(child.wait().unwrap().success());
        assert!(cost > Duration::ZERO, "{cost:?}");
    }
}
