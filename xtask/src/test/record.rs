//! Writes the times of a run into `docs/testing.md`, between two marks.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::runner::job::JobOutcome;
use crate::workspace::{Failure, Workspace};

use super::budget;
use crate::completed_step::CompletedStep;

const DOCUMENT: &str = "docs/testing.md";
const BEGIN: &str = "<!-- times: written by `cargo xtask test --record` -->\n";
const END: &str = "<!-- end of times -->\n";

/// Writes the tables of a run.
pub(super) fn write(
    workspace: &Workspace,
    steps: &[CompletedStep],
    jobs: &[JobOutcome],
    whole: &CompletedStep,
) -> Result<(), Failure> {
    let path = workspace.root.join(DOCUMENT);
    let failed = |error| Failure::new(format!("{DOCUMENT}: {error}"));
    let text = fs::read_to_string(&path).map_err(failed)?;
    let new = replaced(&text, &format!("{}\n{}", machine(), tables(steps, jobs, whole)))
        .ok_or_else(|| Failure::new(format!("{DOCUMENT} has no lines {BEGIN}and {END}")))?;
    fs::write(&path, new).map_err(failed)
}

fn replaced(text: &str, tables: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{tables}\n{END}{after}"))
}

/// The date and machine of the measurement.
fn machine() -> String {
    let output = Command::new("date").arg("+%F").output();
    let date =
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "Measured on {date}, {cores} cores of {}.\n",
        model.map_or("a processor without a name", |(_, name)| name)
    )
}

fn tables(steps: &[CompletedStep], jobs: &[JobOutcome], whole: &CompletedStep) -> String {
    let mut text = "| step | budget, s of processor | s of processor | s elapsed | what |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for row in budget::ROWS {
        if let Some(done) = steps.iter().find(|one| one.step == row.step) {
            let (cost, took) = (done.cost.as_secs_f64(), done.took.as_secs_f64());
            let _ =
                writeln!(text, "| {} | {} | {cost:.0} | {took:.0} | {} |", row.step, row.seconds, row.what);
        }
    }
    let (cost, took) = (whole.cost.as_secs_f64(), whole.took.as_secs_f64());
    let _ = writeln!(text, "| all | {} elapsed | {cost:.0} | {took:.0} | |", budget::WHOLE_RUN.as_secs());
    text.push_str("\nElapsed times of the jobs are sums: they run side by side.\n");
    text.push_str(
        "\n| test program | tests | s of processor | s elapsed, summed |\n| --- | --- | --- | --- |\n",
    );
    let mut programs: BTreeMap<&str, (usize, Duration, Duration)> = BTreeMap::new();
    for job in jobs {
        let (count, cost, took) = programs.entry(&job.program).or_default();
        *count += 1;
        *cost += job.cost;
        *took += job.took;
    }
    for (program, (count, cost, took)) in programs {
        let _ =
            writeln!(text, "| {program} | {count} | {:.1} | {:.1} |", cost.as_secs_f64(), took.as_secs_f64());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_between_marks_is_replaced() {
        let text = format!("above\n{BEGIN}old\n{END}below\n");
        let new = replaced(&text, "new").unwrap();
        assert_eq!(new, format!("above\n{BEGIN}\nnew\n{END}below\n"));
        assert_eq!(replaced(&new, "newer").unwrap(), format!("above\n{BEGIN}\nnewer\n{END}below\n"));
        assert_eq!(replaced("no marks", "new"), None);
    }

    #[test]
    fn each_step_and_each_program_has_a_row() {
        let done = |step| CompletedStep {
            step,
            took: Duration::from_secs(3),
            cost: Duration::from_secs(2),
            summary: String::new(),
        };
        let job = JobOutcome {
            group: "tests",
            program: "zerohop suite".to_owned(),
            name: "a".to_owned(),
            took: Duration::from_secs(1),
            cost: Duration::from_secs(1),
            failure: None,
            skipped: None,
            output: String::new(),
        };
        let text = tables(&[done("tidy")], &[job], &done("all"));
        assert!(text.contains("| tidy | 10 | 2 | 3 | the project's rules |"), "{text}");
        assert!(text.contains("| zerohop suite | 1 | 1.0 | 1.0 |"), "{text}");
    }
}
