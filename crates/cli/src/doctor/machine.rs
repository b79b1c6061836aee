//! This machine: the data folder, the system's limits, and files that must be private.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use rustix::fs::statvfs;
use rustix::process::{Resource, getrlimit};
use tokio::time::Instant;
use zerohop_client::SecretFileError;
use zerohop_server::instances_default;
use zerohop_system::descriptors::Descriptors;
use zerohop_wire::plurals::counted;

use super::finding::Finding;
use crate::common::descriptors::{LIMIT_LOW, advice};
use crate::common::disk::{ADVICE, FREE_BYTES_MIN};
use crate::common::ending::CommandError;
use crate::common::quantity::format_bytes;
use crate::common::target::ClusterTarget;

/// Below this, an operator should act.
const FREE_BYTES_LOW: u64 = 2 << 30;

/// A slower flush indicates a network file system, or a disk that other programs load.
const FLUSH_SLOW: Duration = Duration::from_millis(20);

/// Flushes measured, of which the median counts.
const FLUSHES: usize = 9;

/// What of this machine is checked beside the rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct MachineChecks {
    /// The limit of open files: nodes report their own.
    pub(super) files: bool,
    /// The room on the folder's disk.
    pub(super) space: bool,
}

/// Checks this machine.
pub(super) fn check_machine(target: &ClusterTarget, folder: &Path, checks: MachineChecks) -> Vec<Finding> {
    let mut findings: Vec<Finding> = checks.files.then(files).into_iter().collect();
    findings.extend(checks.space.then(|| space(folder)));
    findings.push(flush(folder));
    findings.extend(target.proofs().into_iter().map(|(what, read)| match read {
        Ok(()) => Finding::ok("secrets", what, "exists, and only its owner has read permission"),
        Err(CommandError::Secret(error @ SecretFileError::Open { .. })) => {
            let message = error.to_string();
            let (found, advice) = message.split_once(": `chmod").unwrap_or((&message, ""));
            Finding::problem("secrets", what, found, format!("`chmod{advice}"))
        }
        Err(error) => Finding::problem(
            "secrets",
            what,
            error.to_string(),
            "name the right file; `zerohop secret new` and `zerohop token new` make such files as they must be",
        ),
    }));
    findings
}

fn files() -> Finding {
    // A node raises its limit to the hard limit.
    let instances = instances_default();
    check_files(Descriptors::new(getrlimit(Resource::Nofile).maximum, instances as u64), instances)
}

/// Judges the limit of open files as a node of this many instances divides it.
fn check_files(descriptors: Descriptors, instances: usize) -> Finding {
    let node = format!("a node of {}", counted(instances, "instance"));
    let kept = descriptors.reserved();
    let found = match descriptors.limit() {
        Some(limit) => format!(
            "a process may have {limit} files and connections open; {node} keeps {kept} of them for its data, and uses the rest for \
             connections"
        ),
        None => format!(
            "a process may have any number of files and connections open; {node} uses at most {kept} for its data"
        ),
    };
    match descriptors.limit() {
        _ if descriptors.is_too_few() => Finding::problem(
            "open-files",
            "",
            format!("{found}: that leaves too few for connections, and the node does not start"),
            advice(),
        ),
        Some(limit) if limit < LIMIT_LOW => Finding::warning("open-files", "", found, advice()),
        _ => Finding::ok("open-files", "", found),
    }
}

fn space(folder: &Path) -> Finding {
    let about = folder.display().to_string();
    let room = match statvfs(folder) {
        Ok(room) => room,
        Err(errno) => {
            let advice = "name a folder that is there and may be read, with --data";
            return Finding::problem(
                "disk-space",
                about,
                format!("the disk cannot be examined: {errno}"),
                advice,
            );
        }
    };
    check_space(about, room.f_bavail.saturating_mul(room.f_frsize))
}

fn check_space(about: String, free: u64) -> Finding {
    let found = format!("{} are free", format_bytes(free));
    match free {
        0..FREE_BYTES_MIN => Finding::problem("disk-space", about, found, ADVICE),
        FREE_BYTES_MIN..FREE_BYTES_LOW => Finding::warning("disk-space", about, found, ADVICE),
        _ => Finding::ok("disk-space", about, found),
    }
}

/// Writes 4 KiB and flushes, repeatedly, in an unnamed file.
fn flush(folder: &Path) -> Finding {
    let about = folder.display().to_string();
    let tried = || -> std::io::Result<Vec<Duration>> {
        let mut file = tempfile::tempfile_in(folder)?;
        let one = |_| {
            let begin = Instant::now();
            file.write_all(&[7; 4096])?;
            file.sync_data()?;
            Ok(begin.elapsed())
        };
        (0..FLUSHES).map(one).collect()
    };
    match tried() {
        Ok(mut took) => {
            took.sort_unstable();
            check_flush(about, took[FLUSHES / 2])
        }
        Err(error) => Finding::problem(
            "disk-flush",
            about,
            format!("writing a file failed: {error}"),
            "name a folder that may be written, with --data",
        ),
    }
}

fn check_flush(about: String, median: Duration) -> Finding {
    let found = format!("4 KiB are on the disk after {:.1} ms", median.as_secs_f64() * 1e3);
    if median < FLUSH_SLOW {
        return Finding::ok("disk-flush", about, found);
    }
    let advice = "every write to a keyspace of durability `sync` takes that long: put the data on a disk of this \
                  machine, not on a network file system";
    Finding::warning("disk-flush", about, found, advice)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    #[test]
    fn descriptor_limit_is_reported_with_data_reserve_and_verdict() {
        let judge = |limit| check_files(Descriptors::new(limit, 2), 2);
        let few = judge(Some(1024));
        assert!(
            few.to_string().contains("may have 1024 files and connections open; a node of 2 instances keeps 304 of them for its data"),
            "{few}"
        );
        assert_eq!(few.verdict, Severity::Warning);
        assert_eq!(judge(Some(64)).verdict, Severity::Problem);
        assert_eq!(judge(Some(LIMIT_LOW)).verdict, Severity::Ok);
        assert_eq!(judge(None).verdict, Severity::Ok);
    }

    #[test]
    fn disks_are_judged_before_they_are_full() {
        let judge = |free| check_space(String::new(), free).verdict;
        assert_eq!(judge(0), Severity::Problem);
        assert_eq!(judge(FREE_BYTES_MIN), Severity::Warning);
        assert_eq!(judge(FREE_BYTES_LOW), Severity::Ok);
    }

    #[test]
    fn slow_flush_is_a_warning() {
        assert_eq!(check_flush(String::new(), Duration::from_millis(1)).verdict, Severity::Ok);
        assert_eq!(check_flush(String::new(), Duration::from_millis(80)).verdict, Severity::Warning);
    }

    #[test]
    fn missing_folder_is_a_problem() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = folder.path().join("nowhere");
        assert_eq!(space(&nowhere).verdict, Severity::Problem);
        assert_eq!(flush(&nowhere).verdict, Severity::Problem);
        assert_ne!(flush(folder.path()).verdict, Severity::Problem);
    }
}
