//! The report of a failed test about its nodes.

use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, test_kill_process};

/// The last lines of a log in the report.
const LINES: usize = 40;

/// Prints, if the test has failed: whether each node's process is alive, the end of its log, and
/// the status of the cluster.
pub(crate) fn if_failed<'a>(
    nodes: impl Iterator<Item = (String, Option<u32>, &'a Path)>,
    status: impl FnOnce() -> Command,
) {
    if !std::thread::panicking() {
        return;
    }
    for (name, process, log) in nodes {
        let state = match process {
            None => "was ended by the test".to_owned(),
            Some(id) => format!("process {id}, {}", state_of(id)),
        };
        eprintln!("---- {name}: {state}; the end of its log:\n{}", end_of(log));
    }
    let output = status().output();
    match output {
        Ok(output) => eprintln!(
            "---- zerohop status: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => eprintln!("---- zerohop status: {error}"),
    }
}

fn end_of(log: &Path) -> String {
    let text = std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let text = text.unwrap_or_else(|error| format!("{}: {error}", log.display()));
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// The state of a process: running, sleeping, stopped, a zombie, or gone.
fn state_of(process: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:")).map(str::trim);
    state.unwrap_or("gone").to_owned()
}

/// Whether a process exists, and has not ended.
pub(crate) fn is_alive(process: Pid) -> bool {
    // An orphan may stay a zombie, as its new parent need not wait for it.
    let id = u32::try_from(process.as_raw_nonzero().get()).unwrap();
    test_kill_process(process).is_ok() && !state_of(id).starts_with('Z')
}

/// Whether a process is in a process group, and has not ended.
pub(crate) fn is_of_group(process: u32, group: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The fields behind the name, which may contain anything: the state, the parent, the group.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    matches!(fields[..], [state, _, of, ..] if state != "Z" && of == group.to_string())
}
