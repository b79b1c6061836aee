//! A small file beside those of an engine that is replaced atomically, even if the disk has become full: the previous file keeps its room for the
//! next one.

use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Replaces the file `name` in `folder`, and creates the folder if it does not exist. The new file survives a crash
/// once this has succeeded; after an error, or a crash, the old file or the new one is there. From the second time on,
/// a file of the same length needs no new space, if the file system can exchange two names atomically. The next bytes
/// then overwrite the previous file.
///
/// # Errors
/// Those of the system.
#[expect(clippy::disallowed_methods, reason = "the home of files")]
pub fn replace_file(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let (unfinished, finished) = (folder.join(format!("{name}.tmp")), folder.join(name));
    // The file is not truncated first, because that would free its room.
    let mut options = std::fs::File::options();
    let mut file = options.write(true).create(true).truncate(false).mode(0o600).open(&unfinished)?;
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)?;
    file.sync_all()?;
    drop(file);
    let swapped = rustix::fs::renameat_with(
        rustix::fs::CWD,
        &unfinished,
        rustix::fs::CWD,
        &finished,
        rustix::fs::RenameFlags::EXCHANGE,
    );
    if swapped.is_err() {
        // There is no such file yet, or the file system cannot exchange names.
        std::fs::rename(&unfinished, &finished)?;
    }
    std::fs::File::open(folder)?.sync_all()
}

/// Removes the file `name` in `folder`. The removal is durable once this has succeeded.
///
/// # Errors
/// Those of the system.
#[expect(clippy::disallowed_methods, reason = "the home of files")]
pub fn remove_file(folder: &Path, name: &str) -> io::Result<()> {
    std::fs::remove_file(folder.join(name))?;
    std::fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "looks at what was written")]
    fn file_is_created_and_replaced_without_leftover_files() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("made");
        replace_file(&folder, "small", b"one and more").unwrap();
        replace_file(&folder, "small", b"two").unwrap();
        assert_eq!(std::fs::read(folder.join("small")).unwrap(), b"two");
        let mode =
            |path: &Path| std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(path).unwrap()) & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join("small"))), (0o700, 0o600));
        replace_file(&folder, "small", b"the third").unwrap();
        replace_file(&folder, "small", b"4").unwrap();
        assert_eq!(std::fs::read(folder.join("small")).unwrap(), b"4");
        let left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|one| one.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| *name == "small" || *name == "small.tmp"), "{left:?}");
        assert!(replace_file(&folder.join("small"), "x", b"").is_err());
    }
}
