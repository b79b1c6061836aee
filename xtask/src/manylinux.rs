//! `cargo xtask wheel --manylinux`: a wheel for every Linux with glibc 2.17 or later, which the command installs and tries.
//!
//! The symbols of a C library have versions, and a program needs those of the machine that built it, or later ones. So
//! zig links the program and the library against an old glibc, which it carries (`cargo zigbuild`, `maturin
//! --zig`). The wheel is then installed into a fresh environment, where its files must need no later version.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::elf;
use crate::environment::{self, Environment, Set, quietly, site_packages};
use crate::interpreter;
use crate::python::{WheelTask, build_command, emptied, files, home, place, program_of_wheel};
use crate::workspace::{Failure, Workspace, run};

/// The oldest glibc, which is that of CentOS 7, and the oldest for which Rust compiles.
const GLIBC: (u32, u32) = (2, 17);

/// Builds the wheel, tries it, and returns its path.
pub fn wheel(workspace: &Workspace, task: &WheelTask) -> Result<PathBuf, Failure> {
    let interpreter = task.version.as_deref().map(interpreter::find).transpose()?;
    let kept = environment::install(workspace, Set::Wheel)?;
    let target = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    let (profile, folder) = task.profile();
    let mut cargo = with_tools(workspace.cargo(), &kept)?;
    cargo.args(["zigbuild", "--locked", "--package", "zerohop", "--profile", profile, "--target"]);
    cargo.arg(format!("{target}.{}.{}", GLIBC.0, GLIBC.1));
    run(&mut cargo, "what went wrong is shown above")?;
    let program = workspace.target.join(&target).join(folder).join("zerohop");
    place(&program, &program_of_wheel(workspace))?;
    let wheels = emptied(&home(workspace).join("wheels"))?;
    let mut maturin = with_tools(build_command(workspace, &kept, profile), &kept)?;
    maturin.args(["--zig", "--auditwheel", "check", "--compatibility"]);
    maturin.arg(format!("manylinux_{}_{}", GLIBC.0, GLIBC.1));
    maturin.args(["--target", &target, "--out"]).arg(&wheels);
    if let Some(interpreter) = &interpreter {
        maturin.arg("--no-default-features").arg("--interpreter").arg(interpreter);
        maturin.env("PYO3_PYTHON", interpreter);
    }
    run(&mut maturin, "the wheel could not be built")?;
    let wheel = files(&wheels)?.pop().ok_or_else(|| Failure::new("maturin made no wheel"))?;
    let python = interpreter.unwrap_or_else(|| kept.bin().join("python"));
    let venv = installed(workspace, &python, &wheel)?;
    for file in [venv.join("bin").join("zerohop"), library(&venv)?] {
        check_versions(&file, GLIBC)?;
    }
    let mut first_steps = Command::new(venv.join("bin").join("python"));
    first_steps.arg(workspace.root.join("suites").join("clients").join("first_steps.py"));
    first_steps.env_remove("ZEROHOP_PROGRAM");
    run(&mut first_steps, "the installed wheel does not work, as shown above")?;
    Ok(wheel)
}

/// The command with the tools of the environment first on its PATH: cargo finds `zigbuild` there, and that finds zig.
fn with_tools(mut command: Command, kept: &Environment) -> Result<Command, Failure> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(kept.bin()).chain(env::split_paths(&path));
    let path: OsString = env::join_paths(folders)
        .map_err(|error| Failure::new(format!("the PATH has a folder that it cannot have: {error}")))?;
    command.env("PATH", path);
    Ok(command)
}

/// Installs the wheel, and nothing else, into an environment of its own, and returns its folder.
fn installed(workspace: &Workspace, python: &Path, wheel: &Path) -> Result<PathBuf, Failure> {
    let venv = emptied(&home(workspace).join("venv-manylinux"))?;
    quietly(Command::new(python).args(["-m", "venv"]).arg(&venv), "no Python environment could be made")?;
    let mut pip = Command::new(venv.join("bin").join("python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]).arg(wheel);
    quietly(&mut pip, "the wheel could not be installed")?;
    Ok(venv)
}

/// The compiled library of the installed package.
fn library(venv: &Path) -> Result<PathBuf, Failure> {
    let package = site_packages(venv)?.join("zerohop");
    let is_library = |file: &PathBuf| file.extension().is_some_and(|end| end == "so");
    files(&package)?.into_iter().find(is_library).ok_or_else(|| Failure::new("the wheel has no library"))
}

/// Refuses a program or library that needs a later glibc.
fn check_versions(file: &Path, glibc: (u32, u32)) -> Result<(), Failure> {
    let shown = file.display();
    let bytes = fs::read(file).map_err(|error| Failure::new(format!("{shown} cannot be read: {error}")))?;
    let versions = elf::needed_versions(&bytes)
        .ok_or_else(|| Failure::new(format!("{shown} is no program of Linux")))?;
    let newer = elf::newer_than(&versions, glibc);
    if newer.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{shown} needs a later glibc than {}.{}: {}; it was not linked with zig, or a dependency calls such a function",
        glibc.0,
        glibc.1,
        newer.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_of_this_machine_is_refused_for_an_old_glibc() {
        let program = env::current_exe().unwrap();
        let text = check_versions(&program, (2, 1)).unwrap_err().to_string();
        assert!(text.contains("GLIBC_2.") && text.contains("than 2.1:"), "{text}");
        check_versions(&program, (99, 0)).unwrap();
        let text = check_versions(Path::new("Cargo.toml"), GLIBC).unwrap_err().to_string();
        assert!(text.contains("no program of Linux"), "{text}");
    }
}
