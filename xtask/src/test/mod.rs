//! `cargo xtask test`: everything that must pass before a change is merged, the cheapest first.
//!
//! ```text
//! checks      format, tidy, lint, docs: in sequence, each fails the run at once
//! build       every program and every test program, once, in one profile
//! jobs        tests, seeds and suites of foreign clients, in parallel; then failures are listed
//!
//! budget      what each step may cost          report      what a run says
//! times       how long each job took before    checks      the steps in front of the jobs
//! record      tables of it in a document
//! ```

pub mod budget;
mod checks;
mod record;
mod report;
mod times;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::built_artifacts;
use crate::changed_packages::ChangedPackages;
use crate::completed_step::{CompletedStep, line};
use crate::environment;
use crate::runner::job::{BUSY, Job, JobOutcome, SUITES_LINGER, WAITING, Weight};
use crate::runner::{cost, pool, programs};
use crate::workspace::{Failure, Workspace};
pub use report::failure;

/// The selection of tests.
#[derive(Clone, Debug, Default)]
pub struct TestSelection {
    /// Only these steps, by name; all if empty.
    pub steps: Vec<String>,
    /// Only what a change affects.
    pub changed: Option<ChangedPackages>,
    /// Whether the times are written into `docs/testing.md`.
    pub is_recorded: bool,
}

impl TestSelection {
    fn has(&self, step: &str) -> bool {
        (self.steps.is_empty() || self.steps.iter().any(|one| one == step))
            && self.changed.as_ref().is_none_or(|changed| changed.touches(step))
    }

    /// The packages to build and test; all if empty.
    fn packages(&self) -> &[String] {
        self.changed.as_ref().map_or(&[], ChangedPackages::packages)
    }
}

/// Runs the selection. A failed check ends the run; jobs all run, and failures are reported
/// afterwards.
///
/// # Errors
///
/// An unknown step, or a failed one.
pub fn run(workspace: &Workspace, requested: &TestSelection) -> Result<(), Failure> {
    if let Some(unknown) = requested.steps.iter().find(|step| budget::row(step).is_none()) {
        let known: Vec<&str> = budget::ROWS.iter().map(|row| row.step).collect();
        return Err(Failure::new(format!("there is no step `{unknown}`; there are {}", known.join(", "))));
    }
    // The build replaces this program's file, and the system then names the old file as deleted.
    let this = std::env::current_exe().map_err(|error| Failure::new(format!("where xtask is: {error}")))?;
    let (begin, cost_begin) = (Instant::now(), cost::of_this_process());
    let needs_clients = JOBS_OF_SUITES.iter().any(|(step, _)| requested.has(step));
    // The installation waits for the network while the checks compute.
    let installing = needs_clients.then(|| environment::begin(workspace));
    let mut done = Vec::new();
    for (step, act) in checks::ALL {
        if requested.has(step) {
            done.push(checks::run(step, || act(workspace, requested.packages()))?);
        }
    }
    let mut programs = Vec::new();
    if ["build", "tests", "processes", "simulation"].iter().any(|step| requested.has(step)) || needs_clients {
        done.push(checks::run("build", || {
            programs = programs::build(workspace, requested.packages())?;
            Ok(format!("{} test programs", programs.len()))
        })?);
    }
    if let Some(installing) = installing {
        done.push(installing.wait()?);
    }
    let jobs = jobs(workspace, requested, &programs, &this)?;
    let ended = run_jobs(workspace, jobs)?;
    let failed = ended.iter().filter(|one| one.failure.is_some()).count();
    print!("{}", report::cost_text(&ended));
    let groups = report::groups(&ended);
    groups.iter().for_each(|one| println!("{}", line("ran", one)));
    done.extend(groups);
    let whole = CompletedStep {
        step: "all",
        took: begin.elapsed(),
        cost: cost::of_this_process().saturating_sub(cost_begin),
        summary: String::new(),
    };
    for excess in done.iter().filter_map(|one| budget::excess(one.step, one.cost)) {
        println!("xtask: note: {excess}");
    }
    if requested.is_recorded {
        record::write(workspace, &done, &ended, &whole)?;
        times::commit(workspace, &ended)?;
    }
    println!("{}", line(if failed == 0 { "ok" } else { "FAILED" }, &whole));
    let skipped: Vec<&JobOutcome> =
        ended.iter().filter(|one| one.failure.is_none() && one.skipped.is_some()).collect();
    for one in &skipped {
        println!("xtask: skipped: {}: {}", one.label(), one.skipped.as_deref().unwrap_or_default());
    }
    if !ended.is_empty() {
        println!(
            "{} passed, {failed} failed, {} skipped",
            ended.len() - failed - skipped.len(),
            skipped.len()
        );
    }
    if failed == 0 {
        return Ok(());
    }
    let names: Vec<String> =
        ended.iter().filter(|one| one.failure.is_some()).map(|one| format!("  {}", one.label())).collect();
    Err(Failure::new(format!("failed, each shown above with what it printed:\n{}", names.join("\n"))))
}

/// Suites of other languages, each a command of this program, with their weights.
const JOBS_OF_SUITES: [(&str, Weight); 4] =
    [("redis", WAITING), ("s3", WAITING), ("slurm", WAITING), ("python", WAITING)];

/// The test program whose build also builds the program that suites start.
const PROGRAM_SUITE: &str = "zerohop suite";

/// Seeds of one node, each run twice.
const NODE_SEEDS: &str = "0..25";
/// So many seeds of clusters at most: it ends once every counted case was seen, and fails if one is
/// missing then (docs/testing.md).
const CLUSTER_SEEDS: &str = "80";
/// So many seeds of clusters over shared logs, from this one on: with splits, snapshot installs and a start on a full disk.
const SHARED_LOG_SEEDS: &str = "6";
const SHARED_LOG_SEED: &str = "50";

fn jobs(
    workspace: &Workspace,
    requested: &TestSelection,
    programs: &[programs::Program],
    this: &Path,
) -> Result<Vec<Job>, Failure> {
    let mut jobs = Vec::new();
    for program in programs.iter().filter(|program| requested.has(program.group())) {
        jobs.extend(program.tests()?.iter().map(|test| program.job(test)));
    }
    if requested.has("simulation") {
        let simulate = |name: &str, words: &[&str]| {
            let mut command = Command::new(workspace.target.join("debug").join("zerohop-sim"));
            command.args(words).current_dir(&workspace.root);
            suite("simulation", name, BUSY, command)
        };
        jobs.push(simulate("seeds of one node", &["--seeds", NODE_SEEDS]));
        jobs.push(simulate("seeds of clusters", &["cluster", "--until-covered", "--seeds", CLUSTER_SEEDS]));
        let shared = ["cluster", "--shared-log", "--seed", SHARED_LOG_SEED, "--seeds", SHARED_LOG_SEEDS];
        jobs.push(simulate("seeds of clusters over shared logs", &shared));
    }
    for (step, weight) in JOBS_OF_SUITES.into_iter().filter(|(step, _)| requested.has(step)) {
        let mut command = Command::new(this);
        command.arg(step).current_dir(&workspace.root);
        if let Some(suite) = programs.iter().find(|one| one.label() == PROGRAM_SUITE) {
            command.env(built_artifacts::SUITE, &suite.path);
        }
        jobs.push(suite(step, step, weight, command));
    }
    Ok(jobs)
}

fn suite(group: &'static str, name: &str, weight: Weight, command: Command) -> Job {
    Job {
        group,
        program: group.to_owned(),
        name: name.to_owned(),
        weight,
        command,
        check: None,
        lingers: SUITES_LINGER,
    }
}

/// Runs the jobs in parallel and prints each failure as it occurs.
fn run_jobs(workspace: &Workspace, jobs: Vec<Job>) -> Result<Vec<JobOutcome>, Failure> {
    let ended = pool::run_all(jobs, pool::capacity(), &times::load(workspace), times::LONG, |one| {
        if one.failure.is_some() {
            println!("{}", report::failure(one, &advice(one)));
        }
    });
    times::save(workspace, &ended)?;
    Ok(ended)
}

/// The advice for a failed job.
fn advice(one: &JobOutcome) -> String {
    match one.group {
        "simulation" => {
            "the line that replays the seed is above; docs/testing.md says how to look into it".to_owned()
        }
        "redis" | "s3" | "slurm" | "python" => format!("repeat it alone: cargo xtask {}", one.group),
        _ => format!("repeat it under load: cargo xtask again {} --times 20", one.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_step_is_answered_with_known_ones() {
        let workspace = Workspace::find().unwrap();
        let expected =
            TestSelection { steps: vec!["tidy".to_owned(), "tiddy".to_owned()], ..TestSelection::default() };
        let message = run(&workspace, &expected).unwrap_err().to_string();
        assert!(message.contains("`tiddy`") && message.contains("build, environment, tests"), "{message}");
    }

    #[test]
    fn each_suite_has_a_row_in_the_budget() {
        for (step, _) in JOBS_OF_SUITES {
            assert!(budget::row(step).is_some(), "{step}");
        }
    }
}
