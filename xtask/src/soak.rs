//! `cargo xtask soak [--hours N] [--step S]`: the longer search, in rounds, for a given time.
//!
//! Each round is a command with new input: new seeds, more time for the fuzzers, all mutants,
//! process kills under load. Output of failures stays in `target/soak`, with the command that
//! repeats it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::workspace::{Failure, Workspace, cannot_start};

/// What to search.
#[derive(Clone, Debug, PartialEq)]
pub struct SoakTask {
    /// The duration; a round that has begun by then is completed.
    pub hours: f64,
    /// Only this step.
    pub step: Option<String>,
}

impl Default for SoakTask {
    fn default() -> Self {
        Self { hours: 8.0, step: None }
    }
}

/// A step, with its command for a round, given a fresh number.
#[derive(Clone, Copy)]
struct SoakStep {
    name: &'static str,
    command: fn(&Workspace, &Path, u64) -> Command,
}

const STEPS: [SoakStep; 10] = [
    SoakStep { name: "seeds", command: cluster_seeds },
    SoakStep { name: "node-seeds", command: node_seeds },
    SoakStep { name: "plants", command: plants },
    SoakStep { name: "engine", command: engine_histories },
    SoakStep { name: "model", command: model },
    SoakStep {
        name: "fuzz",
        command: |workspace, xtask, _| split_words(workspace, xtask, &["fuzz", "--seconds", "60"]),
    },
    SoakStep { name: "processes", command: processes },
    SoakStep { name: "redis", command: redis },
    SoakStep { name: "slurm", command: |workspace, xtask, _| split_words(workspace, xtask, &["slurm"]) },
    SoakStep { name: "clients", command: |workspace, xtask, _| split_words(workspace, xtask, &["clients"]) },
];

/// Seeds of a round.
const SEEDS: u64 = 200;

/// Histories of an engine in a round.
const ENGINE_HISTORIES: u64 = 3000;

fn split_words(workspace: &Workspace, program: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(words).current_dir(&workspace.root);
    command
}

fn simulator(workspace: &Workspace) -> Command {
    let mut cargo = workspace.cargo();
    cargo.args(["run", "--quiet", "--locked", "--package", "zerohop-sim", "--"]);
    cargo
}

fn cluster_seeds(workspace: &Workspace, _: &Path, fresh: u64) -> Command {
    let mut command = simulator(workspace);
    command.args(["cluster", "--seed", &fresh.to_string(), "--seeds", &SEEDS.to_string()]);
    command
}

fn node_seeds(workspace: &Workspace, _: &Path, fresh: u64) -> Command {
    let mut command = simulator(workspace);
    command.args(["--seeds", &format!("{fresh}..{}", fresh + SEEDS)]);
    command
}

/// Histories of an engine, as many as a round of the step: a usual run has a third of them.
fn engine_histories(workspace: &Workspace, _: &Path, fresh: u64) -> Command {
    let mut cargo = workspace.cargo();
    cargo.args(["test", "--locked", "--package", "zerohop-engine", "--test", "suite", "model::"]);
    cargo.env("ZEROHOP_SEEDS", format!("{fresh}..{}", fresh + ENGINE_HISTORIES));
    cargo
}

/// The explorations of the model in their full bounds.
fn model(workspace: &Workspace, _: &Path, _: u64) -> Command {
    let mut cargo = workspace.cargo();
    cargo.args(["test", "--locked", "--package", "suite-model", "--test", "suite", "exhaustive::"]);
    cargo.env("ZEROHOP_BOUNDS", "all");
    cargo
}

fn plants(workspace: &Workspace, _: &Path, _: u64) -> Command {
    let mut cargo = workspace.cargo();
    cargo.args([
        "test",
        "--locked",
        "--workspace",
        "--exclude",
        crate::runner::programs::BENCHMARKS,
        "planted",
    ]);
    cargo.env("ZEROHOP_PLANTS", "all");
    cargo
}

fn processes(workspace: &Workspace, xtask: &Path, _: u64) -> Command {
    split_words(
        workspace,
        xtask,
        &[
            "again",
            "zerohop suite",
            "zerohop-server suite",
            "zerohop-redis suite",
            "--times",
            "2",
            "--beside",
            "2",
        ],
    )
}

fn redis(workspace: &Workspace, xtask: &Path, fresh: u64) -> Command {
    let mut command = split_words(workspace, xtask, &["redis"]);
    command.env("ZEROHOP_SEED", fresh.to_string());
    command
}

/// Searches until the time is over; fails if anything was found.
pub fn run(workspace: &Workspace, task: &SoakTask) -> Result<(), Failure> {
    let steps: Vec<SoakStep> =
        STEPS.into_iter().filter(|one| task.step.as_deref().is_none_or(|name| name == one.name)).collect();
    if steps.is_empty() {
        let known: Vec<&str> = STEPS.iter().map(|one| one.name).collect();
        return Err(Failure::new(format!("there is no such step; there are {}", known.join(", "))));
    }
    let time = Duration::try_from_secs_f64(task.hours * 3600.0)
        .map_err(|_| Failure::new(format!("{} hours cannot be searched", task.hours)))?;
    let folder = workspace.target.join("soak");
    fs::create_dir_all(&folder).map_err(|error| Failure::new(format!("{}: {error}", folder.display())))?;
    let xtask = std::env::current_exe().map_err(|error| Failure::new(format!("where xtask is: {error}")))?;
    // Above all seeds in tests, and different in each run.
    let mut fresh = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1_000_000, |since| since.as_secs());
    let (begin, mut found) = (Instant::now(), Vec::new());
    while begin.elapsed() < time {
        for step in &steps {
            if begin.elapsed() >= time {
                break;
            }
            let mut command = (step.command)(workspace, &xtask, fresh);
            found.extend(turn(&folder, step.name, fresh, &mut command)?);
            fresh += SEEDS;
        }
    }
    println!("xtask: searched for {:.1} hours", begin.elapsed().as_secs_f64() / 3600.0);
    if found.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = found.iter().map(|file| format!("  {}", workspace.shown(file))).collect();
    Err(Failure::new(format!("found, each file ends with the command that repeats it:\n{}", list.join("\n"))))
}

/// Runs one command with its output in a file, which stays if it fails.
fn turn(folder: &Path, step: &str, fresh: u64, command: &mut Command) -> Result<Option<PathBuf>, Failure> {
    let file = folder.join(format!("{step}-{fresh}.txt"));
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", file.display()));
    let out = File::create(&file).map_err(failed)?;
    let err = out.try_clone().map_err(failed)?;
    let begin = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(out).stderr(err).status();
    let status = status.map_err(|error| cannot_start(command, &error))?;
    println!("xtask: {step} {fresh}: {status}, {:.0} s", begin.elapsed().as_secs_f64());
    if status.success() {
        fs::remove_file(&file).map_err(failed)?;
        return Ok(None);
    }
    let again = shown(command);
    println!("xtask: FOUND: {}\n       {again}", file.display());
    let mut text = fs::read_to_string(&file).map_err(failed)?;
    text.push_str(&format!("\nagain: {again}\n"));
    fs::write(&file, text).map_err(failed)?;
    Ok(Some(file))
}

/// The command as a shell line, with the variables that were set for it alone.
fn shown(command: &Command) -> String {
    let own = command.get_envs().filter_map(|(name, value)| {
        let name = name.to_string_lossy();
        let value = value?.to_string_lossy();
        name.starts_with("ZEROHOP_").then(|| format!("{name}={value} "))
    });
    let program =
        Path::new(command.get_program()).file_name().map(|name| name.to_string_lossy().into_owned());
    let program = match program.as_deref() {
        Some("xtask") | None => "cargo xtask".to_owned(),
        Some(other) => other.to_owned(),
    };
    let args: Vec<String> = command
        .get_args()
        .map(|one| one.to_string_lossy().into_owned())
        .map(|one| if one.contains(' ') { format!("'{one}'") } else { one })
        .collect();
    format!("{}{program} {}", own.collect::<String>(), args.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_run_keeps_output_and_replay_command() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo found it; exit 1"]).env("ZEROHOP_SEED", "7");
        let file = turn(folder.path(), "redis", 7, &mut command).unwrap().unwrap();
        let text = fs::read_to_string(file).unwrap();
        assert!(text.contains("found it\n"), "{text}");
        assert!(text.contains("again: ZEROHOP_SEED=7 sh -c 'echo found it; exit 1'"), "{text}");
    }

    #[test]
    fn successful_run_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(turn(folder.path(), "slurm", 1, &mut Command::new("true")).unwrap(), None);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn unknown_step_is_answered_with_known_ones() {
        let task = SoakTask { hours: 0.0, step: Some("seed".to_owned()) };
        let message = run(&Workspace::find().unwrap(), &task).unwrap_err().to_string();
        assert!(message.contains("seeds, node-seeds, plants"), "{message}");
    }
}
