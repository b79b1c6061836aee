//! The time of each job in the previous run, so that the longest starts first:
//! `target/xtask/times.json`. In a fresh checkout, `xtask/long_jobs.json` names the long ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::runner::job::JobOutcome;
use crate::workspace::{Failure, Workspace};

/// A job of this length or more is in the committed list. A job without a time is assumed to be
/// shorter than all of them.
pub(super) const LONG: Duration = Duration::from_secs(4);

fn file(workspace: &Workspace) -> PathBuf {
    workspace.target.join("xtask").join("times.json")
}

fn committed_file(workspace: &Workspace) -> PathBuf {
    workspace.root.join("xtask").join("long_jobs.json")
}

/// The stored times, by the jobs' labels: those of the committed list where this checkout has none.
pub(super) fn load(workspace: &Workspace) -> BTreeMap<String, Duration> {
    let mut all = read(&committed_file(workspace));
    all.extend(read(&file(workspace)));
    all
}

fn read(file: &Path) -> BTreeMap<String, Duration> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let milliseconds: BTreeMap<String, u64> = serde_json::from_str(&text).unwrap_or_default();
    milliseconds.into_iter().map(|(label, one)| (label, Duration::from_millis(one))).collect()
}

/// Stores the times of these jobs, and keeps those of others.
pub(super) fn save(workspace: &Workspace, jobs: &[JobOutcome]) -> Result<(), Failure> {
    let file = file(workspace);
    let mut all = read(&file);
    all.extend(passed(jobs));
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(|error| cannot_write(&file, &error))?;
    }
    write(&file, &all)
}

/// Replaces the committed list by the long ones of these jobs.
pub(super) fn commit(workspace: &Workspace, jobs: &[JobOutcome]) -> Result<(), Failure> {
    write(&committed_file(workspace), &passed(jobs).filter(|(_, took)| *took >= LONG).collect())
}

fn passed(jobs: &[JobOutcome]) -> impl Iterator<Item = (String, Duration)> {
    jobs.iter().filter(|one| one.failure.is_none()).map(|one| (one.label(), one.took))
}

fn write(file: &Path, times: &BTreeMap<String, Duration>) -> Result<(), Failure> {
    let milliseconds: BTreeMap<&str, u64> = times
        .iter()
        .map(|(label, took)| (label.as_str(), u64::try_from(took.as_millis()).unwrap_or(u64::MAX)))
        .collect();
    // Objects of text and numbers can always be written.
    let text = serde_json::to_string_pretty(&milliseconds).unwrap_or_default() + "\n";
    fs::write(file, text).map_err(|error| cannot_write(file, &error))
}

fn cannot_write(file: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{} cannot be written: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, seconds: u64) -> JobOutcome {
        JobOutcome {
            group: "tests",
            program: "p".to_owned(),
            name: name.to_owned(),
            took: Duration::from_secs(seconds),
            cost: Duration::ZERO,
            failure: None,
            skipped: None,
            output: String::new(),
        }
    }

    #[test]
    fn committed_times_are_those_of_long_jobs_and_yield_to_own_times() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace { root: folder.path().to_owned(), target: folder.path().join("target") };
        fs::create_dir(folder.path().join("xtask")).unwrap();
        commit(&workspace, &[job("short", 1), job("long", 10), job("longer", 20)]).unwrap();
        let expected = |long| {
            [("p long", long), ("p longer", 20)]
                .map(|(name, seconds)| (name.to_owned(), Duration::from_secs(seconds)))
        };
        assert_eq!(load(&workspace), BTreeMap::from(expected(10)));
        save(&workspace, &[job("long", 5)]).unwrap();
        assert_eq!(load(&workspace), BTreeMap::from(expected(5)));
    }

    #[test]
    fn saved_times_replace_only_those_of_same_job() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace { root: folder.path().to_owned(), target: folder.path().join("target") };
        assert!(load(&workspace).is_empty());
        for (name, seconds) in [("a", 1), ("b", 2), ("a", 3)] {
            save(&workspace, &[job(name, seconds)]).unwrap();
        }
        let expected =
            [("p a".to_owned(), Duration::from_secs(3)), ("p b".to_owned(), Duration::from_secs(2))];
        assert_eq!(load(&workspace), BTreeMap::from(expected));
    }
}
