//! Paths on a [`super::Disk`]: relative, `/` between components of `[a-z0-9.-]`, no `.` and no `..`.

use super::{DiskError, DiskResult};

/// Bytes in one component of a path: what the usual file systems allow.
pub const COMPONENT_BYTES_MAX: usize = 255;

/// Bytes in a complete path: well under the 4096 of Linux, so that the folder of the disk fits before it.
pub const PATH_BYTES_MAX: usize = 1024;

/// Checks the path of a file, or of a folder other than the top.
///
/// # Errors
/// [`DiskError::Failed`] with the reason.
pub fn check(path: &str, operation: &'static str) -> DiskResult<()> {
    match fault(path) {
        None => Ok(()),
        Some(reason) => {
            Err(DiskError::Failed { path: path.to_owned(), operation, reason: reason.to_owned() })
        }
    }
}

/// Checks the path of a folder; `""` is the top.
///
/// # Errors
/// As [`check`].
pub fn check_folder(path: &str, operation: &'static str) -> DiskResult<()> {
    if path.is_empty() { Ok(()) } else { check(path, operation) }
}

/// Whether `name` can be a component of a path.
#[must_use]
pub fn is_component(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= COMPONENT_BYTES_MAX
        && name != "."
        && name != ".."
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-'))
}

/// The folder a path is in (`""` for the top) and its last component.
#[must_use]
pub fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// A path from the folder it is in and its last component.
#[must_use]
pub fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

fn fault(path: &str) -> Option<&'static str> {
    if path.len() > PATH_BYTES_MAX {
        return Some("the path is longer than 1024 bytes");
    }
    let good = path.split('/').all(is_component);
    (!good).then_some("a path is components of 1 to 255 of a-z 0-9 . - with / between, and none is . or ..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_relative_paths_pass() {
        for good in ["a", "a/b", "p-17/000.log", "..a", "a/...", &"x".repeat(255)] {
            assert_eq!(check(good, "open"), Ok(()), "{good}");
        }
        let long_component = "x".repeat(256);
        let long_path = vec!["abcdefgh"; 200].join("/");
        for bad in
            ["", "/a", "a/", "a//b", ".", "..", "a/../b", "A", "a_b", "a b", "ä", &long_component, &long_path]
        {
            assert!(matches!(check(bad, "open"), Err(DiskError::Failed { .. })), "{bad}");
        }
        assert_eq!(check_folder("", "list"), Ok(()));
        assert!(check_folder("/", "list").is_err());
    }

    #[test]
    fn split_and_join_are_inverse() {
        for path in ["a", "a/b", "a/b/c"] {
            let (folder, name) = split(path);
            assert_eq!(join(folder, name), path);
        }
    }
}
