//! A job: a command with a name, its weight, and its result.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::{cost, leftovers};

/// A job that has not ended by then is stopped and has failed: the longest takes minutes on a slow,
/// busy machine.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(30 * 60);

/// The prefix of the line with which a test reports that it cannot run here, and why.
const NOT_RUN: &str = "not run: ";

/// How long helpers of other languages' interpreters, such as Python's resource tracker, may take
/// to end by themselves.
pub const SUITES_LINGER: Duration = Duration::from_secs(120);

/// A job's share of the machine, in thirds of a processor.
pub type Weight = usize;
/// Uses a processor all the time.
pub const BUSY: Weight = 3;
/// Starts processes and waits for them most of the time: a third of a processor by measurement.
pub const WAITING: Weight = 1;

/// A condition on a job's output, in addition to its exit status.
pub type Check = fn(&str) -> Result<(), String>;

/// A command to run.
#[derive(Debug)]
pub struct Job {
    /// The row of the budget table that it counts for.
    pub group: &'static str,
    /// The program or suite that it belongs to, such as `zerohop-engine suite`.
    pub program: String,
    /// Its own name, such as that of a test.
    pub name: String,
    /// Its share of the machine.
    pub weight: Weight,
    /// How to run it.
    pub command: Command,
    /// The condition on its output.
    pub check: Option<Check>,
    /// How long processes that it has started may live after it: zero for a test, which must end
    /// all of them.
    pub lingers: Duration,
}

impl Job {
    /// Its name in lists and in stored times.
    pub fn label(&self) -> String {
        format!("{} {}", self.program, self.name)
    }
}

/// The result of a job.
#[derive(Clone, Debug)]
pub struct JobOutcome {
    /// The row of the budget table that it counts for.
    pub group: &'static str,
    /// The program or suite that it belongs to.
    pub program: String,
    /// Its own name.
    pub name: String,
    /// Elapsed time.
    pub took: Duration,
    /// Processor time of it and its children.
    pub cost: Duration,
    /// The failure; `None` after success.
    pub failure: Option<String>,
    /// Why it could not run here, if it reported so.
    pub skipped: Option<String>,
    /// Its output.
    pub output: String,
}

impl JobOutcome {
    /// As [`Job::label`].
    pub fn label(&self) -> String {
        format!("{} {}", self.program, self.name)
    }
}

/// Distinguishes the jobs of this process.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Runs a job to its end. Its output goes to a file, so that a child that outlives it delays
/// nothing.
pub fn run(job: Job) -> JobOutcome {
    let begin = Instant::now();
    let Job { group, program, name, mut command, check, lingers, .. } = job;
    let mut ended = JobOutcome {
        group,
        program,
        name,
        took: Duration::ZERO,
        cost: Duration::ZERO,
        failure: None,
        skipped: None,
        output: String::new(),
    };
    match run_jobs(&mut command, check, lingers) {
        Ok((cost, output, failure)) => {
            ended.cost = cost;
            ended.skipped = output.lines().find_map(|line| line.strip_prefix(NOT_RUN)).map(str::to_owned);
            ended.output = output;
            ended.failure = failure;
        }
        Err(error) => ended.failure = Some(format!("cannot be run: {error}")),
    }
    // A CI machine must have everything that tests require.
    if let (Some(reason), None, true) = (&ended.skipped, &ended.failure, std::env::var_os("CI").is_some()) {
        ended.failure = Some(format!("it was not run, though this is CI: {reason}"));
    }
    ended.took = begin.elapsed();
    ended
}

type JobResult = (Duration, String, Option<String>);

fn run_jobs(command: &mut Command, check: Option<Check>, lingers: Duration) -> std::io::Result<JobResult> {
    use std::os::unix::process::CommandExt;

    let mut file = tempfile::tempfile()?;
    let mark = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    command
        .env(leftovers::VARIABLE, &mark)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file.try_clone()?)
        .process_group(0);
    let mut child = command.spawn()?;
    let pid = child.id();
    let (cost, is_late) = await_end(pid);
    let status = child.wait()?;
    let ended = Instant::now();
    let mut left = leftovers::find(&mark, pid);
    while !left.is_empty() && ended.elapsed() < lingers {
        std::thread::sleep(Duration::from_millis(50));
        left = leftovers::find(&mark, pid);
    }
    leftovers::end(&left);
    let output = read_all(&mut file)?;
    let failure = if is_late {
        Some(format!("it had not ended after {} s and was stopped", GIVE_UP_AFTER.as_secs()))
    } else if !status.success() {
        Some(status.to_string())
    } else if let Some(one) = left.first() {
        Some(format!("it left {} processes behind, one of them {}: {}", left.len(), one.pid, one.command))
    } else {
        check.and_then(|check| check(&output).err())
    };
    Ok((cost, output, failure))
}

/// Waits for the end of a process, and kills it if it is late.
fn await_end(pid: u32) -> (Duration, bool) {
    let (ended, end) = std::sync::mpsc::channel();
    let watch = std::thread::spawn(move || {
        let is_late = end.recv_timeout(GIVE_UP_AFTER).is_err();
        if let (true, Some(group)) = (is_late, i32::try_from(pid).ok().and_then(Pid::from_raw)) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        is_late
    });
    let cost = cost::await_end(pid);
    let _ = ended.send(());
    (cost, watch.join().unwrap_or(false))
}

fn read_all(file: &mut File) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str, check: Option<Check>) -> JobOutcome {
        lingering(text, check, Duration::ZERO)
    }

    fn lingering(text: &str, check: Option<Check>, lingers: Duration) -> JobOutcome {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        run(Job {
            group: "tests",
            program: "sh".into(),
            name: "text".into(),
            weight: BUSY,
            command,
            check,
            lingers,
        })
    }

    #[test]
    fn failed_job_reports_its_status_and_output() {
        let ended = shell("echo out; echo err >&2; exit 3", None);
        assert!(ended.failure.unwrap().contains('3'));
        assert!(ended.output.contains("out\n") && ended.output.contains("err\n"));
    }

    #[test]
    fn job_that_leaves_a_process_fails() {
        let ended = shell("sleep 600 & echo started", None);
        assert!(ended.failure.unwrap().contains("sleep 600"));
        assert_eq!(shell("sleep 0 & wait", None).failure, None);
        // A helper that ends soon is accepted where lingering is allowed.
        assert_eq!(lingering("sleep 0.3 & echo started", None, SUITES_LINGER).failure, None);
        assert!(shell("sleep 5 & echo started", None).failure.is_some());
    }

    #[test]
    fn job_output_is_checked() {
        let check: Check = |output| if output == "well\n" { Ok(()) } else { Err("not well".into()) };
        assert_eq!(shell("echo well", Some(check)).failure, None);
        assert_eq!(shell("echo ill", Some(check)).failure.as_deref(), Some("not well"));
    }

    #[test]
    fn job_that_reports_not_run_is_skipped() {
        let ended = shell("echo 'not run: only root may do this'", None);
        assert_eq!(ended.skipped.as_deref(), Some("only root may do this"));
        assert_eq!(ended.failure.is_some(), std::env::var_os("CI").is_some());
        assert_eq!(shell("echo well", None).skipped, None);
    }

    #[test]
    fn job_that_cannot_start_fails() {
        let command = Command::new("/no/such/program");
        let job = Job {
            group: "tests",
            program: "no".into(),
            name: "such".into(),
            weight: BUSY,
            command,
            check: None,
            lingers: Duration::ZERO,
        };
        assert!(run(job).failure.unwrap().contains("cannot be run"));
    }
}
