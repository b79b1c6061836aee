//! The paths of the tree and the target folder, and commands that run there.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A failure: what went wrong, and what to do about it.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    /// `message` says what happened and what to do.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// The tree and its target folder.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// The folder of the workspace's `Cargo.toml`.
    pub root: PathBuf,
    /// Cargo's target folder, absolute.
    pub target: PathBuf,
}

/// Cargo's variable for the number of units of a crate in the profile `dev`.
const UNITS: &str = "CARGO_PROFILE_DEV_CODEGEN_UNITS";

impl Workspace {
    /// Finds the workspace from the current folder upwards.
    ///
    /// The folder in which this program was compiled is not used: with a shared target folder it
    /// may be another tree.
    pub fn find() -> Result<Self, Failure> {
        let here = env::current_dir()
            .map_err(|error| Failure::new(format!("the current folder cannot be read: {error}")))?;
        let root = here
            .ancestors()
            .find(|folder| folder.join("xtask/Cargo.toml").is_file() && folder.join("Cargo.toml").is_file())
            .ok_or_else(|| {
                Failure::new(format!("{} is not inside the zerohop tree: cd there first", here.display()))
            })?
            .to_path_buf();
        let target = match env::var_os("CARGO_TARGET_DIR") {
            Some(folder) => here.join(folder),
            None => root.join("target"),
        };
        Ok(Self { root, target })
    }

    /// A cargo command that runs at the root of the tree.
    ///
    /// It compiles each own crate in one unit unless the caller's environment says otherwise: a whole
    /// build costs 651 s of processor time, 918 s in 16 units, and the tests run as fast. Cargo alone
    /// has many units, because an edited crate is then compiled in a fifth of the time.
    pub fn cargo(&self) -> Command {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
        cargo.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        if env::var_os(UNITS).is_none() {
            cargo.env(UNITS, "1");
        }
        forget_outer_package(&mut cargo);
        cargo
    }

    /// `path` for messages: relative to the root when it is inside.
    pub fn shown<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}

/// Removes the outer cargo's variables about the package xtask. Otherwise build scripts that watch
/// those variables would run again, with everything that depends on them, whenever cargo is used
/// alternately with and without xtask.
pub fn forget_outer_package(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
}

/// Adds `--quiet` without a terminal: progress is for a terminal, and errors are printed all the
/// same.
pub fn quiet_unless_watched(cargo: &mut Command) -> &mut Command {
    if !std::io::stderr().is_terminal() {
        cargo.arg("--quiet");
    }
    cargo
}

/// Runs `command` with this terminal's output and without input; `advice` says what to do when it fails.
pub fn run(command: &mut Command, advice: &str) -> Result<(), Failure> {
    let status = command.stdin(Stdio::null()).status().map_err(|error| cannot_start(command, &error))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(format!("{} ({status})\n{advice}", shown(command))))
    }
}

/// The failure for a `command` that could not be started.
pub fn cannot_start(command: &Command, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot start `{}`: {error}; is it installed and on the PATH?", shown(command)))
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut line = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_command_error_names_remedy() {
        let failure = run(&mut Command::new("false"), "do the other thing").unwrap_err().to_string();
        assert!(failure.contains("false") && failure.contains("do the other thing"), "{failure}");
    }

    #[test]
    fn missing_command_is_named() {
        let failure = run(&mut Command::new("no-such-program-here"), "").unwrap_err().to_string();
        assert!(failure.contains("no-such-program-here") && failure.contains("installed"), "{failure}");
    }
}
