//! `cargo xtask fuzz`: libFuzzer on the stable toolchain.
//!
//! ```text
//! fuzz/targets/NAME.rs    one target, one [[bin]] of fuzz/Cargo.toml (a package outside the workspace)
//! fuzz/corpus/NAME/       its seeds, committed and small; bytes of fixed bugs go here
//! fuzz/found/NAME/        additions by fuzzing, not committed
//! fuzz/artifacts/NAME/    inputs that failed, not committed
//! ```
//!
//! rustc has LLVM's coverage pass, so that flags alone give libFuzzer its feedback. With an
//! explicit `--target` these flags affect neither build scripts nor procedural macros. Every run
//! checks that feedback arrives.

mod outcome;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::workspace::{Failure, Workspace, cannot_start, quiet_unless_watched, run as run_command};
use outcome::Outcome;

/// The manifest of the fuzz targets.
pub const MANIFEST: &str = "fuzz/Cargo.toml";

/// The advice if cargo finds an outdated lock file.
pub const LOCK_ADVICE: &str = "if fuzz/Cargo.lock is out of date, run `cargo update --workspace --manifest-path fuzz/Cargo.toml` and commit it";

/// How long one target is fuzzed by a command without a duration.
pub const SECONDS_BY_HAND: u64 = 60;
/// How long one target is fuzzed as a part of `cargo xtask test`.
const SECONDS_BRIEF: u64 = 10;
/// The number of targets that are fuzzed at once there.
const WORKERS: usize = 2;
/// The time limit of all targets together there, if each worker has a processor: with many targets,
/// each gets less.
const SECONDS_BRIEF_ALL: u64 = 150;
/// An input that takes longer is a finding: decoders are linear and inputs small.
const SECONDS_PER_INPUT: u64 = 10;
/// An input that needs more memory is a finding: decoders must bound lengths before they allocate.
const MEMORY_MB_MAX: u64 = 1024;
/// Longer inputs find nothing new in codecs and slow the search down.
const INPUT_BYTES_MAX: u64 = 16 * 1024;

/// Coverage for libFuzzer, and every assertion and overflow check on, in optimised code.
const FLAGS: [&str; 10] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "-Ccodegen-units=1",
    "-Cdebug-assertions",
    "-Coverflow-checks",
];

/// The task for a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FuzzTask {
    /// Searches for inputs that fail.
    Search {
        /// The duration in seconds.
        seconds: u64,
    },
    /// Runs one input.
    Replay {
        /// The file with its bytes.
        input: PathBuf,
    },
}

/// Fuzzes `target`, or all targets, and shows libFuzzer's output.
pub fn run(workspace: &Workspace, target: Option<&str>, task: &FuzzTask) -> Result<(), Failure> {
    let known = known(&workspace.root)?;
    let chosen: Vec<String> = match target {
        Some(name) if known.iter().any(|one| one == name) => vec![name.to_owned()],
        Some(name) => {
            return Err(Failure::new(format!(
                "there is no fuzz target `{name}`; there are: {}",
                known.join(", ")
            )));
        }
        None => known,
    };
    match task {
        FuzzTask::Search { seconds } => {
            let bins = build(workspace, &chosen)?;
            for name in &chosen {
                println!("{name}: {}", search(workspace, &bins, name, *seconds, Echo::Shown)?);
            }
            Ok(())
        }
        FuzzTask::Replay { input } => {
            let [name] = chosen.as_slice() else {
                return Err(Failure::new("--replay wants the TARGET that the input is for"));
            };
            // A path from the current folder, or from the root as failures print it.
            let input = if input.is_file() { input.clone() } else { workspace.root.join(input) };
            if !input.is_file() {
                return Err(Failure::new(format!(
                    "{} is not a file: give the input's path",
                    input.display()
                )));
            }
            let bins = build(workspace, &chosen)?;
            run_command(Command::new(bins.join(name)).arg(input), "the input still breaks the target")
        }
    }
}

/// Fuzzes every target for a few seconds, as a step of `cargo xtask test`.
pub fn run_briefly(workspace: &Workspace) -> Result<String, Failure> {
    let targets = known(&workspace.root)?;
    let bins = build(workspace, &targets)?;
    let seconds = seconds_each(targets.len());
    let next = AtomicUsize::new(0);
    let work = || -> Result<(), Failure> {
        while let Some(name) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            println!("xtask: fuzz   {name}: {}", search(workspace, &bins, name, seconds, Echo::OnFailure)?);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(|worker| {
            worker.join().unwrap_or_else(|_| Err(Failure::new("a thread that waited for a fuzzer has died")))
        });
        // Waits for all workers: none continues after a failure.
        ended.collect::<Vec<_>>().into_iter().collect::<Result<(), Failure>>()
    })?;
    Ok(format!("targets: {}, {seconds} s each, {WORKERS} at once", targets.len()))
}

fn seconds_each(targets: usize) -> u64 {
    (SECONDS_BRIEF_ALL / (targets.div_ceil(WORKERS) as u64).max(1)).clamp(1, SECONDS_BRIEF)
}

/// The names of the targets, sorted: one per file.
fn known(root: &Path) -> Result<Vec<String>, Failure> {
    let folder = root.join("fuzz/targets");
    let unreadable = |error| Failure::new(format!("{} cannot be read: {error}", folder.display()));
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if let (Some(stem), Some("rs")) = (path.file_stem(), path.extension().and_then(|end| end.to_str())) {
            names.push(stem.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Builds the `targets` with coverage and returns the folder of their programs.
fn build(workspace: &Workspace, targets: &[String]) -> Result<PathBuf, Failure> {
    let triple = host_triple()?;
    let folder = workspace.target.join("fuzz");
    let mut cargo = workspace.cargo();
    cargo.env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f")).env("CARGO_TARGET_DIR", &folder);
    quiet_unless_watched(cargo.arg("build"));
    cargo.args(["--release", "--locked", "--manifest-path", MANIFEST, "--target", &triple]);
    for target in targets {
        cargo.args(["--bin", target]);
    }
    run_command(
        &mut cargo,
        &format!("{LOCK_ADVICE}; if a C++ compiler is missing, install one (libFuzzer is C++)"),
    )?;
    Ok(folder.join(triple).join("release"))
}

fn host_triple() -> Result<String, Failure> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let output = rustc.arg("-vV").output().map_err(|error| cannot_start(&rustc, &error))?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .ok_or_else(|| Failure::new("`rustc -vV` does not tell its host; is the toolchain whole?"))
}

/// Whether libFuzzer's own lines are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Echo {
    Shown,
    OnFailure,
}

/// Runs one target for `seconds`; for an input that fails, the error says how to replay it.
fn search(
    workspace: &Workspace,
    bins: &Path,
    name: &str,
    seconds: u64,
    echo: Echo,
) -> Result<Outcome, Failure> {
    let fuzz = workspace.root.join("fuzz");
    let (found, seeds, artifacts) =
        (fuzz.join("found").join(name), fuzz.join("corpus").join(name), fuzz.join("artifacts").join(name));
    for folder in [&found, &seeds, &artifacts] {
        fs::create_dir_all(folder).map_err(|error| {
            Failure::new(format!("{} cannot be made: {error}; free the name or the disk", folder.display()))
        })?;
    }
    let mut fuzzer = Command::new(bins.join(name));
    fuzzer
        .arg(&found) // the first folder is where libFuzzer writes
        .arg(&seeds)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={SECONDS_PER_INPUT}"))
        .arg(format!("-rss_limit_mb={MEMORY_MB_MAX}"))
        .arg(format!("-max_len={INPUT_BYTES_MAX}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .current_dir(&workspace.root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = fuzzer.spawn().map_err(|error| cannot_start(&fuzzer, &error))?;
    let mut log = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            if echo == Echo::Shown {
                eprintln!("{line}");
            }
            log.push(line);
        }
    }
    let status = child.wait().map_err(|error| cannot_start(&fuzzer, &error))?;
    let outcome = Outcome::read(&log);
    if !status.success() {
        if echo == Echo::OnFailure {
            eprintln!("{}", log.join("\n"));
        }
        return Err(broken(workspace, name, &outcome));
    }
    if outcome.coverage_end == 0 {
        return Err(Failure::new(format!(
            "{name}: libFuzzer saw no coverage, so it searched blindly; this toolchain takes the flags in \
             xtask/src/fuzz/mod.rs differently: correct them"
        )));
    }
    Ok(outcome)
}

fn broken(workspace: &Workspace, name: &str, outcome: &Outcome) -> Failure {
    let Some(artifact) = &outcome.artifact else {
        return Failure::new(format!(
            "{name}: the fuzzer ended early without an input to show for it; see above"
        ));
    };
    let artifact = workspace.shown(artifact);
    Failure::new(format!(
        "{name}: an input breaks this target\n  \
           replay:  cargo xtask fuzz {name} --replay {artifact}\n  \
           bytes:   {} (base64)\n  \
           and when it is repaired, keep the bytes: mv {artifact} fuzz/corpus/{name}/",
        outcome.base64.as_deref().unwrap_or("too many to show"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brief_fuzz_time_is_bounded_for_any_number_of_targets() {
        for targets in 0..=300 {
            let seconds = seconds_each(targets);
            assert!((1..=SECONDS_BRIEF).contains(&seconds));
            let turns = targets.div_ceil(WORKERS) as u64;
            assert!(seconds * turns <= SECONDS_BRIEF_ALL, "{targets} targets");
        }
    }

    #[test]
    fn targets_are_the_rust_files() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("fuzz/targets");
        fs::create_dir_all(&folder).unwrap();
        for name in ["frame.rs", "entry.rs", "notes.md"] {
            fs::write(folder.join(name), "").unwrap();
        }
        assert_eq!(known(root.path()).unwrap(), ["entry", "frame"]);
    }

    #[test]
    fn broken_target_shows_replay_command() {
        let workspace = Workspace { root: "/tree".into(), target: "/tree/target".into() };
        let outcome = Outcome {
            artifact: Some("/tree/fuzz/artifacts/frame/crash-1".into()),
            base64: Some("AAE=".to_owned()),
            ..Outcome::default()
        };
        let message = broken(&workspace, "frame", &outcome).to_string();
        assert!(
            message.contains("cargo xtask fuzz frame --replay fuzz/artifacts/frame/crash-1\n"),
            "{message}"
        );
        assert!(message.contains("AAE="), "{message}");
    }
}
