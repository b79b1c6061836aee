//! `cargo xtask again NAME --times N`: repeats tests beside processes that keep the machine busy.
//!
//! A test that fails once in thirty runs fails once a week for another developer: it is found here
//! first.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::runner::job::{Job, JobOutcome, SUITES_LINGER, WAITING};
use crate::runner::{pool, programs};
use crate::workspace::{Failure, Workspace, cannot_start};

/// The table of repeated tests and their results.
const TABLE: &str = "docs/testing-load.md";

/// What to repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepeatTask {
    /// Tests whose label (program and name) contains one of these; `redis`, `s3`, `slurm` and `python` are suites.
    pub names: Vec<String>,
    /// The number of runs of each.
    pub times: usize,
    /// The number of busy processes beside them.
    pub beside: usize,
    /// Whether the outcome goes into [`TABLE`].
    pub is_recorded: bool,
}

/// Repeats the tests; fails if any run failed, and shows each failed run.
pub fn run(workspace: &Workspace, task: &RepeatTask) -> Result<(), Failure> {
    let is_meant = |label: &str| task.names.iter().any(|name| label.contains(name.as_str()));
    let mut tests = Vec::new();
    let suites: Vec<&str> = ["redis", "s3", "slurm", "python"]
        .into_iter()
        .filter(|one| task.names.iter().any(|name| name == one))
        .collect();
    if suites.len() < task.names.len() {
        for program in programs::build(workspace, &[])? {
            let all = program.tests()?;
            let meant = all.into_iter().filter(|test| is_meant(&format!("{} {test}", program.label())));
            tests.extend(meant.map(|test| (program.clone(), test)));
        }
    }
    if tests.is_empty() && suites.is_empty() {
        return Err(Failure::new(format!("no test's name contains {}", task.names.join(" or "))));
    }
    println!(
        "xtask: {} tests, {} times each, beside {} busy processes",
        tests.len() + suites.len(),
        task.times,
        task.beside
    );
    let this = std::env::current_exe().map_err(|error| Failure::new(format!("where xtask is: {error}")))?;
    let mut jobs: Vec<Job> = Vec::new();
    for _ in 0..task.times {
        jobs.extend(tests.iter().map(|(program, test)| program.job(test)));
        for suite in &suites {
            let mut command = Command::new(&this);
            command.arg(suite).current_dir(&workspace.root);
            let (program, name) = ((*suite).to_owned(), (*suite).to_owned());
            jobs.push(Job {
                group: "processes",
                program,
                name,
                weight: WAITING,
                command,
                check: None,
                lingers: SUITES_LINGER,
            });
        }
    }
    let busy = BusyProcesses::start(task.beside)?;
    let ended = pool::run_all(jobs, pool::capacity(), &BTreeMap::new(), std::time::Duration::ZERO, |one| {
        if one.failure.is_some() {
            println!(
                "{}",
                crate::test::failure(one, "set ZEROHOP_TEST_KEEP=1 to keep the folders of its nodes")
            );
        }
    });
    drop(busy);
    let rows = rows(&ended);
    rows.iter().for_each(|(label, row)| println!("xtask: {label}: {row}"));
    if task.is_recorded {
        record(&workspace.root.join(TABLE), &rows, task.beside)?;
    }
    let failed = ended.iter().filter(|one| one.failure.is_some()).count();
    println!("{} passed, {failed} failed", ended.len() - failed);
    match failed {
        0 => Ok(()),
        _ => Err(Failure::new(format!("{failed} of {} runs failed, each shown above", ended.len()))),
    }
}

/// Processes that compute without end; ended by their handles.
struct BusyProcesses(Vec<Child>);

impl BusyProcesses {
    fn start(count: usize) -> Result<Self, Failure> {
        let mut busy = Self(Vec::new());
        for _ in 0..count {
            let mut command = Command::new("sh");
            // It also ends by itself after its parent is killed: the loop checks after each million
            // iterations.
            command.args([
                "-c",
                "p=$PPID; while [ -d /proc/$p ]; do i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done; done",
            ]);
            command.stdin(Stdio::null());
            busy.0.push(command.spawn().map_err(|error| cannot_start(&command, &error))?);
        }
        Ok(busy)
    }
}

impl Drop for BusyProcesses {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The results of each test: runs, failed runs, median and longest time in seconds.
fn rows(ended: &[JobOutcome]) -> BTreeMap<String, String> {
    let mut by_label: BTreeMap<String, (Vec<Duration>, usize)> = BTreeMap::new();
    for one in ended {
        let (took, failed) = by_label.entry(one.label()).or_default();
        took.push(one.took);
        *failed += usize::from(one.failure.is_some());
    }
    let row = |(label, (mut took, failed)): (String, (Vec<Duration>, usize))| {
        took.sort_unstable();
        let seconds = |at: usize| took.get(at).map_or(0.0, Duration::as_secs_f64);
        let (median, longest) = (seconds(took.len() / 2), seconds(took.len().saturating_sub(1)));
        (label, format!("{} | {failed} | {median:.1} | {longest:.1}", took.len()))
    };
    by_label.into_iter().map(row).collect()
}

/// Writes the rows into the table; those of other tests stay.
fn record(table: &Path, rows: &BTreeMap<String, String>, beside: usize) -> Result<(), Failure> {
    let failed = |error| Failure::new(format!("{}: {error}", table.display()));
    let text = fs::read_to_string(table).map_err(failed)?;
    fs::write(table, recorded(&text, rows, beside)).map_err(failed)
}

fn recorded(text: &str, rows: &BTreeMap<String, String>, beside: usize) -> String {
    let is_row = |line: &&str| line.starts_with("| `");
    let mut all: BTreeMap<String, String> = text
        .lines()
        .filter(is_row)
        .filter_map(|line| {
            let (label, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
            Some((label.to_owned(), rest.trim_end_matches(" |").to_owned()))
        })
        .collect();
    all.extend(rows.iter().map(|(label, row)| (label.clone(), format!("{beside} | {row}"))));
    let mut new = String::new();
    for line in text.lines().filter(|line| !is_row(line)) {
        let _ = writeln!(new, "{line}");
    }
    for (label, row) in all {
        let _ = writeln!(new, "| `{label}` | {row} |");
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_test_form_one_row() {
        let ended = |seconds: u64, failure: Option<&str>| JobOutcome {
            group: "processes",
            program: "zerohop suite".to_owned(),
            name: "a".to_owned(),
            took: Duration::from_secs(seconds),
            cost: Duration::ZERO,
            failure: failure.map(str::to_owned),
            skipped: None,
            output: String::new(),
        };
        let rows = rows(&[ended(3, None), ended(9, Some("lost")), ended(1, None)]);
        assert_eq!(rows, BTreeMap::from([("zerohop suite a".to_owned(), "3 | 1 | 3.0 | 9.0".to_owned())]));
    }

    #[test]
    fn record_keeps_other_rows_and_text_above() {
        let text = "# Load\n\n| test | beside | runs |\n| --- | --- | --- |\n| `b c` | 2 | 30 |\n| `a b` | 2 | 1 |\n";
        let new = recorded(text, &BTreeMap::from([("a b".to_owned(), "30 | 0".to_owned())]), 4);
        assert_eq!(
            new,
            "# Load\n\n| test | beside | runs |\n| --- | --- | --- |\n| `a b` | 4 | 30 | 0 |\n| `b c` | 2 | 30 |\n"
        );
    }

    #[test]
    fn busy_processes_end_with_their_handle() {
        let busy = BusyProcesses::start(1).unwrap();
        let pid = busy.0[0].id();
        assert!(Path::new(&format!("/proc/{pid}")).exists());
        drop(busy);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}
