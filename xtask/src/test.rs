//! `cargo xtask test`: all that must hold before a change lands, the cheapest first.
//!
//! The steps share one target folder and one set of flags, so that a crate is compiled once to be checked (lint, docs)
//! and once to be run (tests). Only the fuzz targets, whose code is instrumented, have a folder of their own.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::workshop::{Failure, Workshop, quiet_unless_watched, run as run_command};
use crate::{fuzz, python, redis, slurm, tidy};

/// How much to test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Everything.
    Full,
    /// Everything but the fuzz.
    Fast,
}

/// Does one thing and returns a word about it for the step's line; empty when there is nothing to add.
type Act = fn(&Workshop) -> Result<String, Failure>;

/// The steps in order, with the ones that only a full run takes.
const STEPS: [(&str, Act, Extent); 11] = [
    ("format", format, Extent::Fast),
    ("lint", lint, Extent::Fast),
    ("docs", docs, Extent::Fast),
    ("tidy", tidy::run, Extent::Fast),
    ("tests", tests, Extent::Fast),
    ("redis", redis::run, Extent::Fast),
    ("slurm", slurm::run, Extent::Fast),
    ("python", python::run, Extent::Fast),
    ("simulation", simulation, Extent::Fast),
    ("plants", plants, Extent::Fast),
    ("fuzz", fuzz::run_briefly, Extent::Full),
];

/// Pages are built with private items, for those who work on the code: links to them lead somewhere.
const DOC_FLAGS: &str = "-D warnings -A rustdoc::private_intra_doc_links";

/// Runs the steps; the first that fails ends it.
pub fn run(shop: &Workshop, extent: Extent) -> Result<(), Failure> {
    run_those(shop, |_, from| from == Extent::Fast || extent == Extent::Full)
}

/// Runs the steps that are named, in the order of the full run: to go on where a full run stopped.
///
/// # Errors
///
/// A name that no step has; else as [`run`].
pub fn run_only(shop: &Workshop, names: &[&str]) -> Result<(), Failure> {
    if let Some(unknown) = names.iter().find(|name| !STEPS.iter().any(|(step, _, _)| step == *name)) {
        let known: Vec<&str> = STEPS.iter().map(|(step, _, _)| *step).collect();
        return Err(Failure::new(format!("there is no step `{unknown}`; there are {}", known.join(", "))));
    }
    run_those(shop, |name, _| names.contains(&name))
}

fn run_those(shop: &Workshop, wanted: impl Fn(&str, Extent) -> bool) -> Result<(), Failure> {
    let begin = Instant::now();
    for (name, act, _) in STEPS.into_iter().filter(|(name, _, from)| wanted(name, *from)) {
        let step_begin = Instant::now();
        let said = act(shop).map_err(|failure| {
            Failure::new(format!("{}\n{failure}", line("FAILED", name, step_begin.elapsed(), "")))
        })?;
        println!("{}", line("ok", name, step_begin.elapsed(), &said));
    }
    println!("{}", line("ok", "all", begin.elapsed(), ""));
    Ok(())
}

fn line(verdict: &str, name: &str, took: Duration, said: &str) -> String {
    format!("xtask: {verdict:6} {name:10} {:7.1} s  {said}", took.as_secs_f64()).trim_end().to_owned()
}

fn format(shop: &Workshop) -> Result<String, Failure> {
    run_command(shop.cargo().args(["fmt", "--all", "--check"]), "run `cargo fmt --all`")?;
    run_command(
        shop.cargo().args(["fmt", "--manifest-path", fuzz::MANIFEST, "--check"]),
        &format!("run `cargo fmt --manifest-path {}`", fuzz::MANIFEST),
    )?;
    Ok(String::new())
}

fn lint(shop: &Workshop) -> Result<String, Failure> {
    // Nothing is built for it here, and a change to some crate's dependencies is easily forgotten there.
    let mut cargo = shop.cargo();
    cargo.args(["fetch", "--quiet", "--locked", "--manifest-path", fuzz::MANIFEST]);
    run_command(&mut cargo, fuzz::LOCK_ADVICE)?;
    let mut cargo = shop.cargo();
    quiet_unless_watched(cargo.arg("clippy")).args([
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ]);
    run_command(
        &mut cargo,
        "correct what is shown above; where a rule makes no sense, say so with #[expect(LINT, reason = \"…\")]; \
         if Cargo.lock is out of date, run `cargo check --workspace` and commit it",
    )?;
    Ok(String::new())
}

fn docs(shop: &Workshop) -> Result<String, Failure> {
    let mut cargo = shop.cargo();
    quiet_unless_watched(cargo.arg("doc").env("RUSTDOCFLAGS", DOC_FLAGS)).args([
        "--workspace",
        "--no-deps",
        "--document-private-items",
        "--locked",
    ]);
    run_command(&mut cargo, "correct the links and the markup in the doc comments shown above")?;
    Ok(String::new())
}

/// Tests that one program runs at once, unless the environment says another number: most of the time of those that start nodes is
/// waiting.
const TEST_THREADS: usize = 4;

/// Not quiet, and every test binary is run: CI and people read the test runner's own lines.
fn tests(shop: &Workshop) -> Result<String, Failure> {
    let mut cargo = shop.cargo();
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        cargo.env("RUST_TEST_THREADS", processors.max(TEST_THREADS).to_string());
    }
    run_command(
        cargo.args(["test", "--workspace", "--locked", "--no-fail-fast"]),
        "the failed tests are listed above; run one alone with `cargo test -p CRATE NAME`",
    )?;
    Ok(String::new())
}

/// Seeds that every run of the tests plays, each twice: about ten seconds of an idle processor.
const SIMULATION_SEEDS: &str = "0..25";

/// Seeds of clusters for each of two cores: about a second each as a release is compiled, and nearly three as tests are, which is
/// more than that takes to compile.
const CLUSTER_SEEDS: u32 = 150;

/// A short simulation: the node and its clients under faults, each seed twice, to the byte.
fn simulation(shop: &Workshop) -> Result<String, Failure> {
    run_command(
        shop.cargo().args([
            "run",
            "--quiet",
            "--package",
            "zerohop-sim",
            "--locked",
            "--",
            "--seeds",
            SIMULATION_SEEDS,
        ]),
        "a simulated run broke a promise, shown above with its trace; docs/testing.md says how to look into it",
    )?;
    let clusters = CLUSTER_SEEDS.to_string();
    run_command(
        simulator(shop).args(["build", "--quiet", "--release", "--package", "zerohop-sim", "--locked"]),
        "the simulator does not compile as a release",
    )?;
    let half = |first: u32| {
        run_command(
            simulator(shop)
                .args([
                    "run",
                    "--quiet",
                    "--release",
                    "--package",
                    "zerohop-sim",
                    "--locked",
                    "--",
                    "cluster",
                ])
                .args(["--seed", &first.to_string(), "--seeds", &clusters]),
            "a simulated cluster broke a promise; the line that replays it is above, docs/testing.md says how to look into it",
        )
    };
    // One for each of two cores.
    std::thread::scope(|scope| {
        let other = scope.spawn(|| half(CLUSTER_SEEDS));
        let one = half(0);
        one.and(
            other.join().unwrap_or_else(|_| {
                Err(Failure::new("the thread that waited for seeds has died".to_owned()))
            }),
        )
    })?;
    Ok(format!("seeds {SIMULATION_SEEDS} of one node, {} of clusters", 2 * CLUSTER_SEEDS))
}

/// Its release is compiled crate by crate: linking all as one takes longer than it saves.
fn simulator(shop: &Workshop) -> Command {
    let mut cargo = shop.cargo();
    cargo.env("CARGO_PROFILE_RELEASE_LTO", "off");
    cargo
}

/// Tests of the crates that have a feature for it find the bugs that it plants.
fn plants(shop: &Workshop) -> Result<String, Failure> {
    let engine: &[&str] = &["--test", "suite", "--", "planted::", "taking::"];
    let sim: &[&str] = &["--test", "planted", "--test", "planted_cluster", "--test", "planted_blobs"];
    let control: &[&str] = &["--test", "suite", "--", "planted::", "votes::"];
    let replication: &[&str] = &["--lib", "--test", "replication", "--", "planted", "each_rule_broken"];
    let session: &[&str] = &["--test", "suite", "--", "transactions_random::planted"];
    let transaction: &[&str] = &["--test", "simulation", "--", "planted"];
    for (package, tests, blind) in [
        ("zerohop-engine", engine, "the histories in crates/engine/tests have become blind to it"),
        ("zerohop-sim", sim, "the simulator has become blind to it"),
        ("zerohop-control", control, "the simulation in crates/control/tests has become blind to it"),
        ("zerohop-partition", replication, "crates/partition/tests/replication has become blind to it"),
        (
            "zerohop-session",
            session,
            "crates/session/tests/suite/transactions_random.rs has become blind to it",
        ),
        ("zerohop-transaction", transaction, "crates/transaction/tests/simulation has become blind to it"),
    ] {
        let mut cargo = shop.cargo();
        cargo.args(["test", "--package", package, "--features", "planted-bugs", "--locked"]).args(tests);
        run_command(&mut cargo, &format!("a bug that is planted on purpose is no longer found: {blind}"))?;
    }
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_run_leaves_out_the_fuzz_alone() {
        let slow: Vec<&str> =
            STEPS.iter().filter(|(_, _, from)| *from == Extent::Full).map(|(name, _, _)| *name).collect();
        assert_eq!(slow, ["fuzz"]);
    }

    #[test]
    fn a_step_that_is_not_there_is_answered_with_those_that_are() {
        let shop = Workshop::find().unwrap();
        let said = run_only(&shop, &["tidy", "tiddy"]).unwrap_err().to_string();
        assert!(said.contains("`tiddy`") && said.contains("tidy, tests, redis"), "{said}");
    }

    #[test]
    fn a_step_is_one_line() {
        assert_eq!(line("ok", "lint", Duration::from_millis(1234), ""), "xtask: ok     lint           1.2 s");
        assert_eq!(
            line("ok", "tidy", Duration::from_millis(50), "9 files"),
            "xtask: ok     tidy           0.1 s  9 files"
        );
    }
}
