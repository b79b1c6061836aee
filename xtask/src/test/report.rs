//! The output of a run: a line per step, the failures with all their output, and a table of times.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::completed_step::CompletedStep;
use crate::runner::job::JobOutcome;

use super::budget;

/// The number of slowest and of most expensive jobs that are listed.
const LISTED: usize = 10;

/// The text about a failed job, printed as soon as it has failed.
pub fn failure(ended: &JobOutcome, advice: &str) -> String {
    format!(
        "---- {} ----\n{}\n---- {} failed: {}\n     {advice}",
        ended.label(),
        ended.output.trim_end(),
        ended.label(),
        ended.failure.as_deref().unwrap_or_default(),
    )
}

/// One step for each group of the parallel jobs.
pub(super) fn groups(jobs: &[JobOutcome]) -> Vec<CompletedStep> {
    let mut groups: BTreeMap<&'static str, (Duration, Duration, usize)> = BTreeMap::new();
    for job in jobs {
        let (took, cost, count) = groups.entry(job.group).or_default();
        *took += job.took;
        *cost += job.cost;
        *count += 1;
    }
    let row = |step: &str| budget::ROWS.iter().position(|row| row.step == step);
    let mut done: Vec<CompletedStep> = groups
        .into_iter()
        .map(|(step, (took, cost, count))| CompletedStep {
            step,
            took,
            cost,
            summary: format!("{count} run"),
        })
        .collect();
    done.sort_by_key(|one| row(one.step));
    done
}

/// The cost of each test program, and the slowest and the most expensive of all jobs, as text.
pub(super) fn cost_text(jobs: &[JobOutcome]) -> String {
    let mut programs: BTreeMap<&str, (usize, Duration, Duration)> = BTreeMap::new();
    for job in jobs {
        let (count, took, cost) = programs.entry(&job.program).or_default();
        *count += 1;
        *took += job.took;
        *cost += job.cost;
    }
    let mut text = String::new();
    for (program, (count, took, cost)) in programs {
        let _ = writeln!(
            text,
            "xtask:   {program:32} {count:5} run {:7.1} s {:7.1} s of processor",
            took.as_secs_f64(),
            cost.as_secs_f64()
        );
    }
    for (word, amount) in
        [("slow", (|one| one.took) as fn(&JobOutcome) -> Duration), ("costly", |one| one.cost)]
    {
        let mut listed: Vec<&JobOutcome> = jobs.iter().collect();
        listed.sort_by_key(|one| std::cmp::Reverse(amount(one)));
        for one in listed.into_iter().take(LISTED) {
            let _ = writeln!(
                text,
                "xtask:   {word:7} {:7.1} s {:7.1} s of processor  {}",
                one.took.as_secs_f64(),
                one.cost.as_secs_f64(),
                one.label()
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completed_step::line;

    fn ended(group: &'static str, name: &str, seconds: u64) -> JobOutcome {
        JobOutcome {
            group,
            program: "zerohop suite".to_owned(),
            name: name.to_owned(),
            took: Duration::from_secs(seconds),
            cost: Duration::from_secs(1),
            failure: None,
            skipped: None,
            output: "what it printed\n".to_owned(),
        }
    }

    #[test]
    fn finished_step_is_one_line() {
        let done = CompletedStep {
            step: "lint",
            took: Duration::from_millis(1234),
            cost: Duration::from_millis(2050),
            summary: String::new(),
        };
        assert_eq!(line("ok", &done), "xtask: ok     lint            1.2 s     2.0 s of processor");
    }

    #[test]
    fn jobs_are_summed_by_their_step_in_the_order_of_the_table() {
        let all = groups(&[ended("redis", "a", 3), ended("tests", "b", 4), ended("tests", "c", 5)]);
        let rows: Vec<(&str, u64, u64)> =
            all.iter().map(|one| (one.step, one.took.as_secs(), one.cost.as_secs())).collect();
        assert_eq!(rows, [("tests", 9, 2), ("redis", 3, 1)]);
    }

    #[test]
    fn failure_shows_output_and_remedy() {
        let mut one = ended("tests", "a::b", 1);
        one.failure = Some("exit status: 101".to_owned());
        let text = failure(&one, "repeat it");
        for part in ["zerohop suite a::b", "what it printed", "exit status: 101", "repeat it"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn slowest_and_most_expensive_jobs_are_listed_first() {
        let mut busy = ended("tests", "busy", 1);
        busy.cost = Duration::from_secs(8);
        let text = cost_text(&[busy, ended("tests", "slow", 9)]);
        let (slowest, costliest) = text.split_at(text.find("xtask:   costly").unwrap());
        for (list, first, second) in
            [(slowest, "suite slow", "suite busy"), (costliest, "suite busy", "suite slow")]
        {
            assert!(list.find(first).unwrap() < list.find(second).unwrap(), "{text}");
        }
    }
}
