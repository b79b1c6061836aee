//! `cargo xtask python`: the Python package, built as a wheel with the program in it, installed, and tried.
//!
//! All that it makes is in the folder `python` of the target folder, but for a link to the program, which maturin wants beside
//! the sources. The tools come from the Python package index, in pinned versions, once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::workshop::{Failure, Workshop, run as run_command};

/// What builds the wheel, and what tries it.
const TOOLS: [&str; 3] = ["maturin==1.16.0", "mypy==2.4.1", "pytest==9.2.0"];

/// What the tests try the package with: fsspec, its suite, and those that keep their data through it.
const USERS: [&str; 8] = [
    "dask==2026.8.0",
    "distributed==2026.8.0",
    "fsspec==2026.9.0",
    "numpy==2.4.6",
    "pandas==3.1.1",
    "pyarrow==26.0.1",
    "xarray==2026.9.0",
    "zarr==3.1.6",
];

/// How a wheel is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Soon.
    Dev,
    /// Fast.
    Release,
}

/// Builds the wheel, installs it, and runs its tests, the examples in its documents, and the checker of types.
pub fn run(shop: &Workshop) -> Result<String, Failure> {
    let bin = install(shop, Profile::Dev, &USERS)?;
    let folder = shop.root.join("python");
    let cache = shop.target.join("python").join("mypy");
    let mut mypy = Command::new(bin.join("mypy"));
    mypy.current_dir(&folder)
        .args(["--no-error-summary", "--cache-dir"])
        .arg(cache)
        .args(["package", "tests"]);
    run_command(&mut mypy, "what the types promise is not so, shown above")?;
    run_command(
        Command::new(bin.join("pytest")).current_dir(&folder).env_remove("ZEROHOP_PROGRAM"),
        "the Python package does not do what its tests want, shown above; run one alone with \
         `target/python/venv/bin/pytest -k NAME` in the folder `python`",
    )?;
    Ok("a wheel, its tests, its examples, its types".to_owned())
}

/// Builds the wheel for whoever is to install it; brings where it is.
pub fn wheel(shop: &Workshop) -> Result<PathBuf, Failure> {
    let home = shop.target.join("python");
    build(shop, Profile::Release, &home, &environment(&home, &TOOLS[..1])?)
}

/// Builds the wheel and installs it, with other packages, in an environment of its own; brings the folder of its programs.
pub fn install(shop: &Workshop, profile: Profile, others: &[&str]) -> Result<PathBuf, Failure> {
    let home = shop.target.join("python");
    let bin = environment(&home, &[&TOOLS[..], others].concat())?;
    let wheel = build(shop, profile, &home, &bin)?;
    let mut pip = Command::new(bin.join("pip"));
    pip.args([
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-index",
        "--no-deps",
        "--force-reinstall",
    ]);
    quietly(pip.arg(wheel), "the wheel could not be installed")?;
    Ok(bin)
}

/// Builds the program and the wheel that carries it, with the tools in `bin`; brings where the wheel is.
fn build(shop: &Workshop, profile: Profile, home: &Path, bin: &Path) -> Result<PathBuf, Failure> {
    let (word, folder) = match profile {
        Profile::Dev => ("dev", "debug"),
        Profile::Release => ("release", "release"),
    };
    let mut cargo = shop.cargo();
    cargo.args(["build", "--locked", "--quiet", "--package", "zerohop", "--profile", word]);
    run_command(&mut cargo, "what went wrong is shown above")?;
    let scripts = shop.root.join("python").join("zerohop.data").join("scripts");
    place(&shop.target.join(folder).join("zerohop"), &scripts)?;
    // Emptied, so that there is one wheel in it.
    let wheels = home.join("wheels");
    let _ = fs::remove_dir_all(&wheels);
    let mut maturin = Command::new(bin.join("maturin"));
    maturin
        .args(["build", "--quiet", "--locked", "--auditwheel", "skip", "--profile", word, "--interpreter"])
        .arg(bin.join("python"))
        .arg("--manifest-path")
        .arg(shop.root.join("python").join("Cargo.toml"))
        .arg("--out")
        .arg(&wheels)
        .env("CARGO_TARGET_DIR", &shop.target);
    quietly(&mut maturin, "the wheel could not be built")?;
    let wheel = fs::read_dir(&wheels)
        .ok()
        .and_then(|mut files| files.next())
        .and_then(Result::ok)
        .ok_or_else(|| Failure::new("maturin made no wheel"))?;
    Ok(wheel.path())
}

/// An environment with these packages; made and filled where it is not.
fn environment(home: &Path, packages: &[&str]) -> Result<PathBuf, Failure> {
    let bin = home.join("venv").join("bin");
    let list = home.join("installed");
    let wanted = packages.join("\n");
    let there = fs::read_to_string(&list).unwrap_or_default();
    if bin.join("pip").is_file() && packages.iter().all(|one| there.lines().any(|line| line == *one)) {
        return Ok(bin);
    }
    fs::create_dir_all(home)
        .map_err(|error| Failure::new(format!("{} cannot be made: {error}", home.display())))?;
    let mut python = Command::new("python3");
    quietly(
        python.args(["-m", "venv"]).arg(home.join("venv")),
        "no Python environment could be made: install python3 with its module venv",
    )?;
    let mut pip = Command::new(bin.join("pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(packages);
    quietly(&mut pip, "the tools could not be had: the Python package index cannot be reached")?;
    let all: Vec<&str> =
        there.lines().filter(|line| !packages.contains(line)).chain([wanted.as_str()]).collect();
    fs::write(&list, all.join("\n"))
        .map_err(|error| Failure::new(format!("{} cannot be written: {error}", list.display())))?;
    Ok(bin)
}

/// Puts the program where maturin takes what becomes scripts.
fn place(program: &Path, scripts: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::new(format!("{} cannot be put there: {error}", scripts.display()));
    fs::create_dir_all(scripts).map_err(failed)?;
    let there = scripts.join("zerohop");
    let _ = fs::remove_file(&there);
    // A link, where both are on one disk: it is large.
    match fs::hard_link(program, &there) {
        Ok(()) => Ok(()),
        Err(_) => fs::copy(program, &there).map(|_| ()).map_err(failed),
    }
}

/// Runs a command whose output is told only if it fails.
fn quietly(command: &mut Command, advice: &str) -> Result<(), Failure> {
    let output = command.output().map_err(|error| crate::workshop::cannot_start(command, &error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(Failure::new(format!("{}\n{advice}", String::from_utf8_lossy(&said).trim_end())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_tells_what_it_said() {
        let mut command = Command::new("sh");
        let failure = quietly(command.args(["-c", "echo out; echo err >&2; exit 3"]), "do the other thing");
        let said = failure.unwrap_err().to_string();
        assert!(
            said.contains("out") && said.contains("err") && said.contains("do the other thing"),
            "{said}"
        );
    }

    #[test]
    fn the_program_is_placed_again_and_again() {
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
