//! The steps before the jobs: static checks, and the build.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::completed_step::{CompletedStep, line};
use crate::runner::cost;
use crate::workspace::{Failure, Workspace, quiet_unless_watched, run as run_command};
use crate::{fuzz, tidy};

/// Checks some packages, or all if none is named, and returns a summary for the step's line.
pub(super) type PackageCheck = fn(&Workspace, &[String]) -> Result<String, Failure>;

/// The checks, in order.
pub(super) const ALL: [(&str, PackageCheck); 4] =
    [("format", format), ("tidy", tidy), ("lint", lint), ("docs", docs)];

/// Runs a step and prints its line.
pub(super) fn run(
    step: &'static str,
    act: impl FnOnce() -> Result<String, Failure>,
) -> Result<CompletedStep, Failure> {
    let (begin, cost_begin) = (Instant::now(), cost::of_this_process());
    let done = |text: String| CompletedStep {
        step,
        took: begin.elapsed(),
        cost: cost::of_this_process().saturating_sub(cost_begin),
        summary: text,
    };
    match act() {
        Ok(text) => {
            let done = done(text);
            println!("{}", line("ok", &done));
            Ok(done)
        }
        Err(failure) => Err(Failure::new(format!("{}\n{failure}", line("FAILED", &done(String::new()))))),
    }
}

fn format(workspace: &Workspace, _: &[String]) -> Result<String, Failure> {
    run_command(workspace.cargo().args(["fmt", "--all", "--check"]), "run `cargo fmt --all`")?;
    run_command(
        workspace.cargo().args(["fmt", "--manifest-path", fuzz::MANIFEST, "--check"]),
        &format!("run `cargo fmt --manifest-path {}`", fuzz::MANIFEST),
    )?;
    Ok(String::new())
}

fn tidy(workspace: &Workspace, _: &[String]) -> Result<String, Failure> {
    tidy::run(workspace)
}

fn lint(workspace: &Workspace, packages: &[String]) -> Result<String, Failure> {
    // This step does not build the package, and its lock file is easily forgotten after a change of
    // dependencies.
    let mut cargo = workspace.cargo();
    cargo.args(["fetch", "--quiet", "--locked", "--manifest-path", fuzz::MANIFEST]);
    run_command(&mut cargo, fuzz::LOCK_ADVICE)?;
    let mut cargo = workspace.cargo();
    quiet_unless_watched(cargo.arg("clippy")).args(["--all-targets", "--locked"]);
    name_packages(&mut cargo, packages).args(["--", "-D", "warnings"]);
    run_command(
        &mut cargo,
        "correct what is shown above; where a rule makes no sense, say so with #[expect(LINT, reason = \"…\")]; \
         if Cargo.lock is out of date, run `cargo check --workspace` and commit it",
    )?;
    // What users run has no debug assertions. The dependencies are those of the step before.
    let mut cargo = workspace.cargo();
    quiet_unless_watched(cargo.arg("check")).arg("--locked");
    cargo.args(["--config", "profile.dev.debug-assertions=false"]);
    cargo.args(["--config", "profile.dev.package.'*'.debug-assertions=true"]);
    run_command(
        name_packages(&mut cargo, packages),
        "the program does not build without debug assertions, as `cargo build --release` builds it: correct what is shown above",
    )?;
    Ok(String::new())
}

/// Pages are built with private items, for developers: links to them must resolve.
const DOC_FLAGS: &str = "-D warnings -A rustdoc::private_intra_doc_links";

/// What `cargo clippy -- -D warnings` passes to the compiler.
const CLIPPY_ARGS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

fn docs(workspace: &Workspace, packages: &[String]) -> Result<String, Failure> {
    let mut cargo = workspace.cargo();
    quiet_unless_watched(cargo.arg("doc").env("RUSTDOCFLAGS", DOC_FLAGS)).args([
        "--no-deps",
        "--document-private-items",
        "--locked",
    ]);
    name_packages(&mut cargo, packages);
    if packages.is_empty() {
        // Benchmarks are programs. To exclude them would change features of dependencies, and so check again
        // what the step before has checked.
        cargo.arg("--lib");
    }
    share_checks_of_lint(&mut cargo);
    run_command(&mut cargo, "correct the links and the markup in the doc comments shown above")?;
    Ok(String::new())
}

/// Lets cargo use what clippy has checked, where pages need the own crates that they are about or link to.
///
/// `cargo clippy` is `cargo check` with these two variables. Where they differ from its own, the crates
/// are checked once more, which costs time only.
fn share_checks_of_lint(cargo: &mut Command) {
    let Ok(output) = Command::new("rustc").args(["--print", "sysroot"]).output() else { return };
    let driver = Path::new(String::from_utf8_lossy(&output.stdout).trim()).join("bin/clippy-driver");
    if driver.is_file() {
        cargo.env("RUSTC_WORKSPACE_WRAPPER", driver).env("CLIPPY_ARGS", CLIPPY_ARGS);
    }
}

fn name_packages<'a>(cargo: &'a mut Command, packages: &[String]) -> &'a mut Command {
    if packages.is_empty() {
        cargo.arg("--workspace");
    }
    for package in packages {
        cargo.args(["--package", package]);
    }
    cargo
}
