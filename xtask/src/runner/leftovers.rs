//! Processes that outlive the job that started them.
//!
//! Each job's environment has a mark of its own, which its children inherit, however they are started.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// The variable that carries the mark.
pub const VARIABLE: &str = "ZEROHOP_TEST_JOB";

/// A process that is still there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Its id.
    pub pid: i32,
    /// Its command line.
    pub command: String,
}

/// The processes whose environment has this mark, zombies left out.
pub fn find(mark: &str) -> Vec<Leftover> {
    let wanted = format!("{VARIABLE}={mark}");
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    // The environment of a zombie is empty, that of a stranger is not readable.
    pids.filter(|pid| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|one| one == wanted.as_bytes()))
    })
    .map(|pid| Leftover { pid, command: command_line(pid) })
    .collect()
}

/// Ends each of them.
pub fn end(leftovers: &[Leftover]) {
    for pid in leftovers.iter().filter_map(|one| Pid::from_raw(one.pid)) {
        // One that has ended meanwhile needs no end.
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
    fn a_process_left_behind_is_found_by_its_mark_and_ended() {
        let mark = format!("leftovers-{}", std::process::id());
        // The shell ends at once; what it started does not.
        let status = Command::new("sh")
            .args(["-c", "sleep 600 >/dev/null 2>&1 &"])
            .env(VARIABLE, &mark)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        let found = find(&mark);
        assert!(matches!(&found[..], [one] if one.command.contains("sleep 600")), "{found:?}");
        assert_eq!(find(&format!("{mark}-other")), []);
        end(&found);
        while !find(&mark).is_empty() {
            std::thread::yield_now();
        }
    }
}
