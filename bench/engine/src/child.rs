//! Runs a child process to its end or its time limit, on given cores.
//!
//! Each run is its own process, so that allocator and caches carry nothing from one subject to the
//! next. A child inherits the cores of the thread that starts it: the driver moves there for that
//! moment.

use std::process::Command;
use std::time::{Duration, Instant};

use bench_common::ServerOutput;
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::failure::Failure;
use crate::limits::POLL;

/// The output of the child, if it ended without error and in time.
pub(crate) fn output(command: &mut Command, limit: Duration) -> Result<String, Failure> {
    output_on(command, limit, &[])
}

/// The same, with the child pinned to these cores (all, if none are named).
pub(crate) fn output_on(command: &mut Command, limit: Duration, cores: &[usize]) -> Result<String, Failure> {
    let mut printed = ServerOutput::of(command).map_err(keeping)?;
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = {
        let _pinned = PinnedThread::to(cores)?;
        command.spawn().map_err(|source| Failure::Io { doing: format!("starting {name}"), source })?
    };
    let waiting = |source| Failure::Io { doing: format!("waiting for {name}"), source };
    let deadline = now() + limit;
    let status = loop {
        match child.try_wait().map_err(waiting)? {
            Some(status) => break status,
            None if now() >= deadline => {
                child.kill().map_err(waiting)?;
                child.wait().map_err(waiting)?;
                return Err(Failure::TimedOut(limit));
            }
            None => pause(POLL),
        }
    };
    if status.success() {
        return printed.stdout().map_err(keeping);
    }
    Err(Failure::Child { status: status.to_string(), stderr: printed.last_words().map_err(keeping)? })
}

/// The cores that this thread, and so its child, may use at the moment.
pub(crate) fn allowed_cores() -> Result<Vec<usize>, Failure> {
    let set = sched_getaffinity(None).map_err(affinity)?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}

/// For a child: it is killed when its driver ends.
pub(crate) fn die_with_parent() -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Failure::Io { doing: "tying itself to the driver".into(), source: error.into() })
}

/// While it lives, this thread runs on the given cores only.
struct PinnedThread {
    before: CpuSet,
}

impl PinnedThread {
    fn to(cores: &[usize]) -> Result<Option<PinnedThread>, Failure> {
        if cores.is_empty() {
            return Ok(None);
        }
        let before = sched_getaffinity(None).map_err(affinity)?;
        let mut set = CpuSet::new();
        for core in cores {
            set.set(*core);
        }
        sched_setaffinity(None, &set).map_err(affinity)?;
        Ok(Some(PinnedThread { before }))
    }
}

impl Drop for PinnedThread {
    fn drop(&mut self) {
        // If this fails, the driver stays on the child's core, where it sleeps nearly all the time.
        let _ = sched_setaffinity(None, &self.before);
    }
}

fn affinity(error: rustix::io::Errno) -> Failure {
    Failure::Io { doing: "choosing cores".into(), source: error.into() }
}

fn keeping(source: std::io::Error) -> Failure {
    Failure::Io { doing: "keeping what a child prints".into(), source }
}

#[expect(clippy::disallowed_methods, reason = "a child's time-out is wall time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the driver has nothing else to do while a child runs")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn child_is_killed_at_its_time_limit() {
        let start = now();
        let result = output(&mut shell("exec sleep 60"), Duration::from_millis(100));
        assert!(matches!(result, Err(Failure::TimedOut(_))), "{result:?}");
        assert!(now() - start < Duration::from_secs(30));
    }

    #[test]
    fn failed_child_is_reported_with_its_stderr() {
        let result = output(&mut shell("echo fine; echo broken >&2; exit 3"), Duration::from_secs(30));
        let text = result.unwrap_err().to_string();
        assert!(text.contains('3') && text.contains("broken") && !text.contains("fine"), "{text}");
    }

    #[test]
    fn child_runs_on_its_core_and_driver_cores_are_unchanged() {
        let before = allowed_cores().unwrap();
        let core = before[0];
        let script = "grep Cpus_allowed_list /proc/self/status";
        let printed = output_on(&mut shell(script), Duration::from_secs(30), &[core]).unwrap();
        assert_eq!(printed.split_whitespace().last().unwrap(), core.to_string());
        assert_eq!(allowed_cores().unwrap(), before);
    }
}
