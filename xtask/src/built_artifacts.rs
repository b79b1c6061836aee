//! The programs and the library for suites of other languages, and the tests that one of them
//! repeats.
//!
//! `cargo xtask test` has built all of them, and names the test program in a variable. Cargo would build
//! them once more here, with a third of the workspace: the features of its dependencies depend on
//! the packages that one command builds.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use crate::workspace::{Failure, Workspace, run};

/// The variable with the path of the program's integration tests.
pub const SUITE: &str = "ZEROHOP_BUILT_SUITE";

/// The package of the program.
const PACKAGE: &str = "zerohop";

/// The package of the native half of the Python package.
const PYTHON: &str = "zerohop-python";

/// Builds the program in the profile `dev`, unless that is done; returns its path.
///
/// # Errors
///
/// It does not compile.
pub fn program(workspace: &Workspace) -> Result<PathBuf, Failure> {
    build(workspace, PACKAGE)?;
    Ok(workspace.target.join("debug").join(PACKAGE))
}

/// Builds the native half of the Python package in the profile `dev`, unless that is done; returns
/// the library's path.
///
/// # Errors
///
/// It does not compile.
pub fn python_library(workspace: &Workspace) -> Result<PathBuf, Failure> {
    build(workspace, PYTHON)?;
    Ok(workspace.target.join("debug").join("libzerohop_python.so"))
}

fn build(workspace: &Workspace, package: &str) -> Result<(), Failure> {
    if env::var_os(SUITE).is_some() {
        return Ok(());
    }
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--locked", "--quiet", "--package", package]);
    run(&mut cargo, "what went wrong is shown above")
}

/// A command that runs the program's integration tests whose names contain `filter`.
pub fn tests(workspace: &Workspace, filter: &str) -> Command {
    let Some(suite) = env::var_os(SUITE) else {
        let mut cargo = workspace.cargo();
        cargo.args(["test", "--quiet", "--locked", "--package", PACKAGE, "--test", "suite", filter]);
        return cargo;
    };
    let folder = workspace.root.join("crates").join("cli");
    let mut command = Command::new(suite);
    command.args(["--quiet", filter]).env("CARGO_MANIFEST_DIR", &folder).current_dir(&folder);
    command
}
