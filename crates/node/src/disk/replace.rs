//! A small file beside those of an engine, replaced whole or not at all.

use std::io::{self, Write};
use std::path::Path;

/// Puts these bytes in the place of the file `name` of `folder`, which is made if there is none. It survives a crash once
/// this has returned well; after an error, or a crash, the old one stands or the new one.
///
/// # Errors
/// The system's.
#[expect(clippy::disallowed_methods, reason = "the home of files")]
pub(crate) fn replace_file(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let unfinished = folder.join(format!("{name}.tmp"));
    let mut file = std::fs::File::create(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    drop(file);
    std::fs::rename(&unfinished, folder.join(name))?;
    std::fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "looks at what was written")]
    fn a_file_is_made_replaced_and_nothing_else_left() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("made");
        replace_file(&folder, "small", b"one and more").unwrap();
        replace_file(&folder, "small", b"two").unwrap();
        assert_eq!(std::fs::read(folder.join("small")).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        assert!(replace_file(&folder.join("small"), "x", b"").is_err());
    }
}
