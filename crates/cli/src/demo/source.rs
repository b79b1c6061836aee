//! Finds and reads the files that are stored. They belong to the user, not to the store.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::limits::FILES_MAX;
use crate::common::demo_error::DemoError;

/// Folders of build results and repositories, which can be made again.
const SKIPPED_FOLDERS: [&str; 2] = ["target", ".git"];

/// The files below a folder.
#[derive(Debug, Default)]
pub(super) struct DemoFiles {
    root: PathBuf,
    /// Paths below the root, as bytes, sorted.
    pub(super) files: Vec<Vec<u8>>,
    /// Folders skipped because of their names, or because they contain the demo's own data.
    pub(super) skipped_folders: u64,
    /// Links, sockets, devices and pipes.
    pub(super) skipped_others: u64,
    /// Folders that could not be read.
    pub(super) unreadable: u64,
}

impl DemoFiles {
    /// Finds the files below `root`, but not those below `leave_out`.
    pub(super) fn find(root: &Path, leave_out: &Path) -> Result<Self, DemoError> {
        let not_a_folder = |reason: String| DemoError::NotAFolder { path: root.to_owned(), reason };
        match std::fs::metadata(root) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Err(not_a_folder("is not a folder".to_owned())),
            Err(error) => return Err(not_a_folder(error.to_string())),
        }
        std::fs::read_dir(root).map_err(|error| not_a_folder(error.to_string()))?;
        let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let leave_out = canonical(leave_out).strip_prefix(canonical(root)).ok().map(Path::to_owned);
        let mut source = DemoFiles { root: root.to_owned(), ..DemoFiles::default() };
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            source.read_folder(&folder, leave_out.as_deref(), &mut folders)?;
        }
        source.files.sort_unstable();
        Ok(source)
    }

    /// Opens a file, to be read up to its present length: it may be growing.
    #[expect(clippy::disallowed_methods, reason = "a file of the user's, not of the store")]
    pub(super) fn open(&self, path: &[u8]) -> std::io::Result<impl Read + use<>> {
        let file = File::open(self.root.join(OsStr::from_bytes(path)))?;
        let bytes = file.metadata()?.len();
        Ok(file.take(bytes))
    }

    fn read_folder(
        &mut self,
        folder: &Path,
        leave_out: Option<&Path>,
        folders: &mut Vec<PathBuf>,
    ) -> Result<(), DemoError> {
        let Ok(entries) = std::fs::read_dir(self.root.join(folder)) else {
            self.unreadable += 1;
            return Ok(());
        };
        for entry in entries {
            let Some((name, kind)) = entry.ok().and_then(|e| Some((e.file_name(), e.file_type().ok()?)))
            else {
                self.unreadable += 1;
                continue;
            };
            let path = folder.join(&name);
            if kind.is_dir() {
                if is_skipped(&name) || leave_out == Some(&*path) {
                    self.skipped_folders += 1;
                } else {
                    folders.push(path);
                }
            } else if kind.is_file() {
                if self.files.len() == FILES_MAX {
                    return Err(DemoError::TooManyFiles { most: FILES_MAX });
                }
                self.files.push(OsString::from(path).into_vec());
            } else {
                self.skipped_others += 1;
            }
        }
        Ok(())
    }
}

fn is_skipped(name: &OsStr) -> bool {
    SKIPPED_FOLDERS.iter().any(|skipped| name == *skipped)
}

/// Reads until the buffer is full or the file ends.
pub(super) fn fill_buffer(file: &mut impl Read, buffer: &mut Vec<u8>, bytes: usize) -> std::io::Result<()> {
    buffer.clear();
    file.take(bytes as u64).read_to_end(buffer).map(drop)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "makes the files that are found")]
mod tests {
    use super::*;

    #[test]
    fn file_walk_finds_odd_names_and_skips_generated_folders() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &[u8]| root.path().join(OsStr::from_bytes(name));
        for folder in ["a/b", "target/debug", "a/.git", "data/killed"] {
            std::fs::create_dir_all(path(folder.as_bytes())).unwrap();
        }
        let files: [&[u8]; 6] =
            [b"a/b/deep", b"target/debug/x", b"a/.git/x", b"data/killed/x", b"not \xff utf-8", b"\n"];
        files.iter().for_each(|name| std::fs::write(path(name), name).unwrap());
        std::os::unix::fs::symlink("a", path(b"link")).unwrap();
        let source = DemoFiles::find(root.path(), &path(b"data")).unwrap();
        assert_eq!(source.files, [&b"\n"[..], b"a/b/deep", b"not \xff utf-8"]);
        assert_eq!((source.skipped_folders, source.skipped_others, source.unreadable), (3, 1, 0));
        let mut bytes = Vec::new();
        source.open(b"not \xff utf-8").unwrap().read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"not \xff utf-8");
    }

    #[test]
    fn file_or_missing_folder_is_reported() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        std::fs::write(&file, "").unwrap();
        for bad in [file.clone(), root.path().join("nothing")] {
            let error = DemoFiles::find(&bad, Path::new("x")).unwrap_err();
            assert!(matches!(error, DemoError::NotAFolder { .. }), "{error}");
        }
    }
}
