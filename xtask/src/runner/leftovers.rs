//! Processes that outlive the job that started them.
//!
//! Each job's environment has a mark of its own, which its children inherit, however they are started.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// The variable that carries the mark.
pub const VARIABLE: &str = "ZEROHOP_TEST_JOB";

/// A process that still runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftoverProcess {
    /// Its id.
    pub pid: i32,
    /// Its command line.
    pub command: String,
}

/// How often a process without a visible environment is checked: it is empty only for a moment,
/// during `exec`.
const CHECKS: usize = 100;

/// The processes whose environment has this mark, without zombies. `group` is the process group of
/// the job.
pub fn find(mark: &str, group: u32) -> Vec<LeftoverProcess> {
    let requested = format!("{VARIABLE}={mark}");
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| has_mark(*pid, &requested, group))
        .map(|pid| LeftoverProcess { pid, command: command_line(pid) })
        .collect()
}

fn has_mark(pid: i32, requested: &str, group: u32) -> bool {
    for _ in 0..CHECKS {
        // The environment of another user's process is not readable; that of a zombie is empty.
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
        if !environment.is_empty() {
            return environment.split(|byte| *byte == 0).any(|one| one == requested.as_bytes());
        }
        // It is also empty during `exec` in a process of the job.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if !lives_in(&stat, group) {
            return false;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    false
}

/// Whether a process, by its line of `/proc/PID/stat`, is no zombie and in this process group.
fn lives_in(stat: &str, group: u32) -> bool {
    let Some((_, rest)) = stat.rsplit_once(')') else { return false };
    let mut fields = rest.split_ascii_whitespace();
    let (state, of) = (fields.next(), fields.nth(1));
    !matches!(state, Some("Z" | "X") | None) && of == Some(group.to_string().as_str())
}

/// Kills each of them.
pub fn end(leftovers: &[LeftoverProcess]) {
    for pid in leftovers.iter().filter_map(|one| Pid::from_raw(one.pid)) {
        // The process may have ended meanwhile.
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn command_line(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn only_live_processes_of_group_count_as_leftovers() {
        assert!(lives_in("7 (a) b) S 1 42 42 0 -1", 42));
        assert!(!lives_in("7 (a) Z 1 42 42 0 -1", 42));
        assert!(!lives_in("7 (a) S 1 43 42 0 -1", 42));
        assert!(!lives_in("", 42));
    }

    #[test]
    fn leftover_process_is_found_by_its_mark_and_ended() {
        let mark = format!("leftovers-{}", std::process::id());
        // The shell ends at once; its child does not.
        let status = Command::new("sh")
            .args(["-c", "sleep 600 >/dev/null 2>&1 & while [ $(cat /proc/$!/comm) != sleep ]; do :; done"])
            .env(VARIABLE, &mark)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        let found = find(&mark, 0);
        assert!(matches!(&found[..], [one] if one.command.contains("sleep 600")), "{found:?}");
        assert_eq!(find(&format!("{mark}-other"), 0), []);
        end(&found);
        while !find(&mark, 0).is_empty() {
            std::thread::yield_now();
        }
    }
}
