//! Pythons of other versions, for wheels of one version: Python before 3.11 cannot load the library of
//! the stable interface.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::workspace::Failure;

/// The program of a version, such as `3.9`: from the PATH, else from pyenv.
///
/// # Errors
///
/// There is none, or the version is malformed.
pub fn find(version: &str) -> Result<PathBuf, Failure> {
    let numbers: Vec<Option<u8>> = version.split('.').map(|number| number.parse().ok()).collect();
    let [Some(major), Some(minor)] = numbers[..] else {
        return Err(Failure::new(format!("`{version}` is not a version of Python: give one such as 3.9")));
    };
    let found = candidates(version).into_iter().find(|program| is_version(program, (major, minor)));
    found.ok_or_else(|| {
        Failure::new(format!(
            "there is no Python {version}: install it from the system's packages, or with `pyenv install {version}`"
        ))
    })
}

fn candidates(version: &str) -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut all: Vec<PathBuf> =
        env::split_paths(&path).map(|folder| folder.join(format!("python{version}"))).collect();
    let pyenv = env::var_os("PYENV_ROOT").map(PathBuf::from);
    let pyenv = pyenv.or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv")));
    let folders = pyenv.and_then(|pyenv| std::fs::read_dir(pyenv.join("versions")).ok());
    let prefix = format!("{version}.");
    let of_version = folders
        .into_iter()
        .flatten()
        .flatten()
        .filter(|folder| folder.file_name().to_string_lossy().starts_with(&prefix));
    all.extend(of_version.map(|folder| folder.path().join("bin").join("python")));
    all.retain(|program| program.is_file());
    all
}

/// Whether it runs, and has this version. A program on the PATH may start another one that is not there.
fn is_version(program: &Path, (major, minor): (u8, u8)) -> bool {
    let output = Command::new(program)
        .args(["-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
        .stdin(Stdio::null())
        .output();
    output.is_ok_and(|output| output.stdout == format!("{major}.{minor}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_python_is_an_error_with_advice() {
        let text = find("3.255").unwrap_err().to_string();
        assert!(text.contains("3.255") && text.contains("install"), "{text}");
        for malformed in ["", "3", "three", "3.9.1", "3.x"] {
            assert!(find(malformed).unwrap_err().to_string().contains("such as 3.9"), "{malformed}");
        }
    }

    #[test]
    fn program_of_another_version_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("python3.9");
        std::fs::write(&program, "#!/bin/sh\necho 3.10\n").unwrap();
        let mut mode = std::fs::metadata(&program).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        assert!(is_version(&program, (3, 10)) && !is_version(&program, (3, 9)));
    }
}
