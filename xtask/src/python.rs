//! `cargo xtask python`: builds the Python package as a wheel with the program in it, installs it,
//! and tests it.
//!
//! All output is in the folder `python` of the target folder, except a link to the program, which
//! maturin requires beside the sources. The tools come from the shared environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::built;
use crate::environment::{self, Environment, Set, quietly};
use crate::workspace::{Failure, Workspace, forget_outer_package, run as run_command};

/// The build profile of a wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Compiles fast.
    Dev,
    /// Runs fast.
    Release,
}

/// Builds the wheel, installs it, and runs its tests, the examples in its documents, and the type
/// checker.
pub fn run(shop: &Workspace) -> Result<String, Failure> {
    let kept = environment::install(shop, Set::Test)?;
    let python = install(shop, Profile::Dev, &kept)?;
    let folder = shop.root.join("python");
    let cache = home(shop).join("mypy");
    let mut mypy = Command::new(kept.bin().join("mypy"));
    mypy.current_dir(&folder)
        .args(["--no-error-summary", "--cache-dir"])
        .arg(cache)
        .args(["package", "tests"]);
    run_command(&mut mypy, "what the types promise is not so, shown above")?;
    pytest(shop, &python, "not wide")?;
    Ok("a wheel, its tests, its examples, its types".to_owned())
}

/// Runs the tests of the package that have these marks, with the Python that [`install`] returned.
pub fn pytest(shop: &Workspace, python: &Path, marks: &str) -> Result<(), Failure> {
    let mut pytest = Command::new(python);
    pytest
        .args(["-m", "pytest", "-m", marks])
        .current_dir(shop.root.join("python"))
        .env_remove("ZEROHOP_PROGRAM");
    run_command(
        &mut pytest,
        "the Python package does not do what its tests want, shown above; run one alone with \
         `target/python/venv/bin/python -m pytest -k NAME` in the folder `python`",
    )
}

/// Builds the wheel for users, and returns its path.
pub fn wheel(shop: &Workspace) -> Result<PathBuf, Failure> {
    build(shop, Profile::Release, &environment::install(shop, Set::Test)?)
}

/// Builds the wheel, installs it in an environment of this checkout on top of the shared one, and
/// returns its Python.
pub fn install(shop: &Workspace, profile: Profile, kept: &Environment) -> Result<PathBuf, Failure> {
    let wheel = build(shop, profile, kept)?;
    let venv = home(shop).join("venv");
    let python = venv.join("bin").join("python");
    if !python.is_file() {
        let mut make = Command::new(kept.bin().join("python"));
        quietly(
            make.args(["-m", "venv", "--without-pip"]).arg(&venv),
            "no Python environment could be made",
        )?;
    }
    // Packages of the shared environment come after its own.
    let path = environment::site_packages(&venv)?.join("kept.pth");
    fs::write(&path, format!("{}\n", kept.site_packages()?.display()))
        .map_err(|error| Failure::new(format!("{} cannot be written: {error}", path.display())))?;
    let mut pip = Command::new(kept.bin().join("pip"));
    pip.arg("--python").arg(&python).args([
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-index",
        "--no-deps",
        "--force-reinstall",
    ]);
    quietly(pip.arg(wheel), "the wheel could not be installed")?;
    Ok(python)
}

/// The folder of all output for the package.
pub fn home(shop: &Workspace) -> PathBuf {
    shop.target.join("python")
}

/// Builds the program and the wheel that contains it, and returns the wheel's path.
fn build(shop: &Workspace, profile: Profile, kept: &Environment) -> Result<PathBuf, Failure> {
    let (word, program) = match profile {
        Profile::Dev => ("dev", built::program(shop)?),
        Profile::Release => {
            let mut cargo = shop.cargo();
            // Not quiet: a release build takes many minutes.
            cargo.args(["build", "--locked", "--package", "zerohop", "--release"]);
            run_command(&mut cargo, "what went wrong is shown above")?;
            ("release", shop.target.join("release").join("zerohop"))
        }
    };
    let scripts = shop.root.join("python").join("zerohop.data").join("scripts");
    place(&program, &scripts)?;
    // Emptied, so that it has exactly one wheel.
    let wheels = home(shop).join("wheels");
    let _ = fs::remove_dir_all(&wheels);
    let mut maturin = Command::new(kept.bin().join("maturin"));
    maturin
        .args(["build", "--quiet", "--locked", "--auditwheel", "skip", "--profile", word, "--interpreter"])
        .arg(kept.bin().join("python"))
        .arg("--manifest-path")
        .arg(shop.root.join("python").join("Cargo.toml"))
        .arg("--out")
        .arg(&wheels)
        .env("CARGO_TARGET_DIR", &shop.target);
    forget_outer_package(&mut maturin);
    quietly(&mut maturin, "the wheel could not be built")?;
    let wheel = fs::read_dir(&wheels)
        .ok()
        .and_then(|mut files| files.next())
        .and_then(Result::ok)
        .ok_or_else(|| Failure::new("maturin made no wheel"))?;
    Ok(wheel.path())
}

/// Puts the program where maturin looks for scripts.
fn place(program: &Path, scripts: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::new(format!("{} cannot be put there: {error}", scripts.display()));
    fs::create_dir_all(scripts).map_err(failed)?;
    let there = scripts.join("zerohop");
    let _ = fs::remove_file(&there);
    // A hard link, where both are on one disk: the file is large.
    match fs::hard_link(program, &there) {
        Ok(()) => Ok(()),
        Err(_) => fs::copy(program, &there).map(|_| ()).map_err(failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placed_program_replaces_older_one() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("zerohop");
        for text in ["one", "two"] {
            let _ = fs::remove_file(&program);
            fs::write(&program, text).unwrap();
            place(&program, &folder.path().join("scripts")).unwrap();
            assert_eq!(fs::read_to_string(folder.path().join("scripts/zerohop")).unwrap(), text);
        }
    }
}
