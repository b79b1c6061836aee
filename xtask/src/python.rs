//! `cargo xtask python`: installs the Python package with the program in it, and tests it;
//! `cargo xtask wheel`: builds it for users.
//!
//! All output is in the folder `python` of the target folder, except a link to the program, which
//! maturin requires beside the sources. The tools come from the shared environment.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use crate::built_artifacts;
use crate::environment::{self, Environment, Set, quietly};
use crate::interpreter;
use crate::workspace::{Failure, Workspace, forget_outer_package, run as run_command};

/// Installs the package, and runs its tests, the examples in its documents, and the type checker.
pub fn run(workspace: &Workspace) -> Result<String, Failure> {
    let kept = environment::install(workspace, Set::Test)?;
    let python = install(workspace, &kept)?;
    let folder = workspace.root.join("python");
    let cache = home(workspace).join("mypy");
    let mut mypy = Command::new(kept.bin().join("mypy"));
    mypy.current_dir(&folder)
        .args(["--no-error-summary", "--cache-dir"])
        .arg(cache)
        .args(["package", "tests"]);
    run_command(&mut mypy, "what the types promise is not so, shown above")?;
    pytest(workspace, &python, "not wide")?;
    Ok("its tests, its examples, its types".to_owned())
}

/// Runs the tests of the package that have these marks, with the Python that [`install`] returned.
pub fn pytest(workspace: &Workspace, python: &Path, marks: &str) -> Result<(), Failure> {
    let mut pytest = Command::new(python);
    pytest
        .args(["-m", "pytest", "-m", marks])
        .current_dir(workspace.root.join("python"))
        .env_remove("ZEROHOP_PROGRAM");
    run_command(
        &mut pytest,
        "the Python package does not do what its tests want, shown above; run one alone with \
         `target/python/venv/bin/python -m pytest -k NAME` in the folder `python`",
    )
}

/// A wheel for users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WheelTask {
    /// A version, such as `3.9`: the wheel is for this Python only; otherwise for 3.11 and all later ones.
    pub version: Option<String>,
    /// Whether it is built in the profile `dev`: sooner, slower, larger.
    pub is_dev: bool,
    /// Whether it is for every Linux with an old glibc: see [`crate::manylinux`].
    pub is_portable: bool,
}

impl WheelTask {
    /// The Cargo profile, and its folder in the target folder.
    pub fn profile(&self) -> (&'static str, &'static str) {
        if self.is_dev { ("dev", "debug") } else { ("release", "release") }
    }
}

/// Builds a wheel for users, and returns its path.
pub fn wheel(workspace: &Workspace, task: &WheelTask) -> Result<PathBuf, Failure> {
    let interpreter = task.version.as_deref().map(interpreter::find).transpose()?;
    let kept = environment::install(workspace, Set::Test)?;
    let (profile, folder) = task.profile();
    let mut cargo = workspace.cargo();
    // Not quiet: a release build takes many minutes.
    cargo.args(["build", "--locked", "--package", "zerohop", "--profile", profile]);
    run_command(&mut cargo, "what went wrong is shown above")?;
    place(&workspace.target.join(folder).join("zerohop"), &program_of_wheel(workspace))?;
    built_wheel(workspace, &kept, profile, interpreter.as_deref())
}

/// Builds the wheel of one version of Python in the profile `dev`, and installs it in an environment
/// that has nothing else; returns its Python.
pub fn install_for_version(
    workspace: &Workspace,
    kept: &Environment,
    version: &str,
) -> Result<PathBuf, Failure> {
    let interpreter = interpreter::find(version)?;
    place(&built_artifacts::program(workspace)?, &program_of_wheel(workspace))?;
    let wheel = built_wheel(workspace, kept, "dev", Some(&interpreter))?;
    let venv = emptied(&home(workspace).join(format!("venv-{version}")))?;
    let mut make = Command::new(&interpreter);
    let advice = format!("no environment of Python {version} could be made: install its module venv");
    quietly(make.args(["-m", "venv"]).arg(&venv), &advice)?;
    let python = venv.join("bin").join("python");
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]).arg(&wheel);
    quietly(&mut pip, "the wheel could not be installed")?;
    Ok(python)
}

/// Where maturin finds the program that the wheel carries.
pub(crate) fn program_of_wheel(workspace: &Workspace) -> PathBuf {
    workspace.root.join("python").join("zerohop.data").join("scripts").join("zerohop")
}

/// The command of maturin that compiles the library and packs the wheel, without the options of one kind of wheel.
/// Not quiet, as it may compile for many minutes; standard output is for the wheel's path.
pub(crate) fn build_command(workspace: &Workspace, kept: &Environment, profile: &str) -> Command {
    let mut maturin = maturin(workspace, kept);
    maturin.args(["build", "--locked", "--profile", profile]).env("CARGO_TARGET_DIR", &workspace.target);
    maturin.stdout(io::stderr());
    maturin
}

/// Lets maturin build the wheel, and returns its path. `interpreter`: for this Python only.
fn built_wheel(
    workspace: &Workspace,
    kept: &Environment,
    profile: &str,
    interpreter: Option<&Path>,
) -> Result<PathBuf, Failure> {
    // Emptied, so that it has exactly one wheel.
    let wheels = emptied(&home(workspace).join("wheels"))?;
    let mut maturin = build_command(workspace, kept, profile);
    maturin.args(["--auditwheel", "skip", "--out"]).arg(&wheels);
    if let Some(interpreter) = interpreter {
        maturin.arg("--no-default-features").arg("--interpreter").arg(interpreter);
        maturin.env("PYO3_PYTHON", interpreter);
    }
    run_command(&mut maturin, "the wheel could not be built, as shown above")?;
    files(&wheels)?.pop().ok_or_else(|| Failure::new("maturin made no wheel"))
}

/// Installs the wheel for users in an environment of this checkout on top of the shared one, and
/// returns its Python.
pub fn install_wheel(workspace: &Workspace, kept: &Environment) -> Result<PathBuf, Failure> {
    let wheel = wheel(workspace, &WheelTask::default())?;
    install_from(workspace, kept, &wheel)
}

/// Installs a wheel with the program and the library that the build of the tests has made, and returns
/// its Python. Maturin would build the library and its dependencies again, with other features.
pub fn install(workspace: &Workspace, kept: &Environment) -> Result<PathBuf, Failure> {
    let (program, library) =
        (built_artifacts::program(workspace)?, built_artifacts::python_library(workspace)?);
    let folder = emptied(&home(workspace).join("wheel"))?;
    let mut maturin = maturin(workspace, kept);
    maturin.args(["pep517", "write-dist-info", "--metadata-directory"]).arg(&folder);
    quietly(&mut maturin, "the package's description could not be written")?;
    let info = files(&folder)?.pop().ok_or_else(|| Failure::new("maturin wrote no description"))?;
    let name = info.file_name().unwrap_or_default().to_string_lossy().replace(".dist-info", ".data");
    place(&program, &folder.join(name).join("scripts").join("zerohop"))?;
    let package = folder.join("zerohop");
    for file in files(&workspace.root.join("python").join("package").join("zerohop"))? {
        // Without what Python has compiled there.
        if file.is_file() {
            place(&file, &package.join(file.file_name().unwrap_or_default()))?;
        }
    }
    place(&library, &package.join("_native.abi3.so"))?;
    let wheels = emptied(&home(workspace).join("wheels"))?;
    let mut pack = Command::new(kept.bin().join("python"));
    pack.arg(workspace.root.join("python").join("pack_wheel.py")).args([&folder, &wheels]);
    quietly(&mut pack, "the wheel could not be packed")?;
    install_from(workspace, kept, &packed_wheel(workspace)?)
}

/// The wheel that [`install`] has packed.
pub fn packed_wheel(workspace: &Workspace) -> Result<PathBuf, Failure> {
    files(&home(workspace).join("wheels"))?.pop().ok_or_else(|| Failure::new("there is no wheel"))
}

fn install_from(workspace: &Workspace, kept: &Environment, wheel: &Path) -> Result<PathBuf, Failure> {
    let python = environment_of_checkout(workspace, kept)?;
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

/// The Python of the environment of this checkout, which is made unless it is there.
fn environment_of_checkout(workspace: &Workspace, kept: &Environment) -> Result<PathBuf, Failure> {
    let venv = home(workspace).join("venv");
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
        .map_err(|error| cannot_write(&path, &error))?;
    Ok(python)
}

/// A command of maturin for the package. It requires the folder of the program.
pub(crate) fn maturin(workspace: &Workspace, kept: &Environment) -> Command {
    let folder = workspace.root.join("python");
    // If it cannot be made, maturin says so.
    let _ = fs::create_dir_all(folder.join("zerohop.data").join("scripts"));
    let mut maturin = Command::new(kept.bin().join("maturin"));
    maturin.current_dir(folder).env("PYO3_PYTHON", kept.bin().join("python"));
    forget_outer_package(&mut maturin);
    maturin
}

/// The folder of all output for the package.
pub fn home(workspace: &Workspace) -> PathBuf {
    workspace.target.join("python")
}

/// Makes a folder without files.
pub(crate) fn emptied(folder: &Path) -> Result<PathBuf, Failure> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot_write(folder, &error)),
        _ => {}
    }
    fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    Ok(folder.to_owned())
}

/// The files and folders in a folder.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let all = fs::read_dir(folder).and_then(|all| all.map(|one| Ok(one?.path())).collect());
    all.map_err(|error| Failure::new(format!("{} cannot be read: {error}", folder.display())))
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("{} cannot be written: {error}", path.display()))
}

/// Puts a file there, in place of an older one.
pub(crate) fn place(file: &Path, there: &Path) -> Result<(), Failure> {
    let failed = |error| cannot_write(there, &error);
    fs::create_dir_all(there.parent().unwrap_or(there)).map_err(failed)?;
    let _ = fs::remove_file(there);
    // A hard link, where both are on one disk: programs and libraries are large.
    match fs::hard_link(file, there) {
        Ok(()) => Ok(()),
        Err(_) => fs::copy(file, there).map(|_| ()).map_err(failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_of_a_wheel_shows_its_progress() {
        let workspace = Workspace::find().unwrap();
        let kept = Environment { home: workspace.root.clone() };
        let command = build_command(&workspace, &kept, "release");
        assert!(command.get_args().all(|argument| argument != "--quiet"), "{command:?}");
    }

    #[test]
    fn placed_program_replaces_older_one() {
        let folder = tempfile::tempdir().unwrap();
        let (program, there) = (folder.path().join("zerohop"), folder.path().join("scripts").join("zerohop"));
        for text in ["one", "two"] {
            let _ = fs::remove_file(&program);
            fs::write(&program, text).unwrap();
            place(&program, &there).unwrap();
            assert_eq!(fs::read_to_string(&there).unwrap(), text);
        }
    }
}
