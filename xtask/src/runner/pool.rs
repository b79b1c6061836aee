//! Runs jobs in parallel, the longest first, within the machine's capacity.
//!
//! Each processor has a capacity of three units of weight: one busy job, or three that wait most of
//! the time.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::job::{BUSY, Job, JobOutcome, Weight, run};

/// Units of weight per processor.
const UNITS_PER_PROCESSOR: Weight = BUSY;

/// The capacity of the machine.
pub fn capacity() -> Weight {
    std::thread::available_parallelism().map_or(1, usize::from) * UNITS_PER_PROCESSOR
}

struct State {
    /// The longest last.
    waiting: Vec<Job>,
    free: Weight,
}

/// Runs `jobs` within `capacity`. `expected` has the previous time of each job by its label, `otherwise`
/// is that of jobs without one. `report` is called at each end.
pub fn run_all(
    mut jobs: Vec<Job>,
    capacity: Weight,
    expected: &BTreeMap<String, Duration>,
    otherwise: Duration,
    report: impl Fn(&JobOutcome) + Sync,
) -> Vec<JobOutcome> {
    let length = |job: &Job| expected.get(&job.label()).copied().unwrap_or(otherwise);
    jobs.sort_by_key(length);
    let state = Mutex::new(State { waiting: jobs, free: capacity });
    let (freed, done) = (Condvar::new(), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..capacity {
            scope.spawn(|| {
                while let Some(job) = next(&state, &freed, capacity) {
                    let weight = job.weight.min(capacity);
                    let ended = run(job);
                    report(&ended);
                    lock(&done).push(ended);
                    lock(&state).free += weight;
                    freed.notify_all();
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the longest job that fits, as soon as one does; `None` when no job is left.
fn next(state: &Mutex<State>, freed: &Condvar, capacity: Weight) -> Option<Job> {
    let mut state = lock(state);
    loop {
        if state.waiting.is_empty() {
            return None;
        }
        let free = state.free;
        if let Some(at) = state.waiting.iter().rposition(|job| job.weight.min(capacity) <= free) {
            let job = state.waiting.remove(at);
            state.free -= job.weight.min(capacity);
            return Some(job);
        }
        state = freed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::job::WAITING;
    use super::*;

    fn job(name: &str, weight: Weight, script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Job {
            group: "tests",
            program: "sh".into(),
            name: name.into(),
            weight,
            command,
            check: None,
            lingers: Duration::ZERO,
        }
    }

    #[test]
    fn all_jobs_end_even_if_one_exceeds_machine_capacity() {
        let jobs = vec![job("a", BUSY, "true"), job("b", WAITING, "exit 1"), job("c", 9, "true")];
        let ended = run_all(jobs, 1, &BTreeMap::new(), Duration::ZERO, |_| {});
        let mut names: Vec<(&str, bool)> =
            ended.iter().map(|one| (one.name.as_str(), one.failure.is_none())).collect();
        names.sort_unstable();
        assert_eq!(names, [("a", true), ("b", false), ("c", true)]);
    }

    #[test]
    fn longest_job_starts_first_and_unknown_one_where_it_is_expected() {
        let expected = BTreeMap::from([
            ("sh short".to_owned(), Duration::from_secs(1)),
            ("sh long".to_owned(), Duration::from_secs(9)),
        ]);
        let jobs = vec![job("short", BUSY, "true"), job("new", BUSY, "true"), job("long", BUSY, "true")];
        let ended = run_all(jobs, BUSY, &expected, Duration::from_secs(4), |_| {});
        let names: Vec<&str> = ended.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["long", "new", "short"]);
    }

    #[test]
    fn concurrent_jobs_never_exceed_machine_capacity() {
        let folder = tempfile::tempdir().unwrap();
        // Each counts the others that run: each has a directory while it runs.
        let script = format!(
            "cd {}; mkdir run-$$; set -- run-*; echo $#; sleep 0.02; rmdir run-$$",
            folder.path().display()
        );
        let jobs = (0..12).map(|one| job(&one.to_string(), BUSY, &script)).collect();
        let ended = run_all(jobs, 2 * BUSY, &BTreeMap::new(), Duration::ZERO, |_| {});
        assert!(ended.iter().all(|one| one.output.trim().parse::<usize>().unwrap() <= 2), "{ended:?}");
        assert_eq!(ended.len(), 12);
    }
}
