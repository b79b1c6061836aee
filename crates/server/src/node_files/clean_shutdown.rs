//! The clean-shutdown file: an instance writes it to its disk once it has ended, with everything flushed. With it, the next start reports to the control
//! group that no acknowledged write of the ended start is lost. The file is removed before the data is opened again, so that no file of an earlier start
//! remains, however that start ends. `docs/formats/node-folder.md` specifies the bytes.

use std::io;
use std::path::Path;

use tracing::warn;
use zerohop_disk::{remove_file, replace_file};
use zerohop_wire::checksum::crc32c;
use zerohop_wire::ids::Incarnation;

/// The file's name in the instance's folder.
const FILE: &str = "closed";

const MAGIC: [u8; 8] = *b"zerohopc";
const VERSION: u32 = 1;
const BYTES: usize = 8 + 4 + 8 + 4;

/// Writes the file of this start. The caller must call this once everything is durable and no more writes follow.
///
/// # Errors
/// Those of the system. Then there is no file, or it is this one, which is true.
pub(crate) fn write(folder: &Path, incarnation: Incarnation) -> io::Result<()> {
    replace_file(folder, FILE, &encode(incarnation))
}

/// The start that has written the file, which stays; `None`: there is no valid file.
pub(crate) fn read(folder: &Path) -> Option<Incarnation> {
    #[expect(clippy::disallowed_methods, reason = "beside the engine's files, and before it is there")]
    let bytes = std::fs::read(folder.join(FILE)).ok()?;
    decode(&bytes)
}

/// Removes the file durably, and returns the start that has written it. An invalid file is removed as well, and counts as none.
///
/// # Errors
/// In words: the file may still be there.
pub(crate) fn take(folder: &Path) -> Result<Option<Incarnation>, String> {
    let path = folder.join(FILE);
    let failed = |error: io::Error| format!("cannot remove {}: {error}", path.display());
    #[expect(clippy::disallowed_methods, reason = "beside the engine's files, and before it is there")]
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            warn!(%error, path = %path.display(), "the clean-shutdown file cannot be read: the last stop counts as a crash");
            Vec::new()
        }
    };
    remove_file(folder, FILE).map_err(failed)?;
    let found = decode(&bytes);
    if found.is_none() {
        warn!(path = %path.display(), "the clean-shutdown file is invalid: the last stop counts as a crash");
    }
    Ok(found)
}

pub(crate) fn encode(incarnation: Incarnation) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BYTES);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&incarnation.get().to_le_bytes());
    let checksum = crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// `None`: the file is corrupt, or of a version that this program does not know.
fn decode(bytes: &[u8]) -> Option<Incarnation> {
    let (body, checksum) = bytes.split_last_chunk::<4>()?;
    let (head, incarnation) = body.split_last_chunk::<8>()?;
    let (magic, version) = head.split_last_chunk::<4>()?;
    let is_whole = *magic == MAGIC
        && u32::from_le_bytes(*version) == VERSION
        && u32::from_le_bytes(*checksum) == crc32c(body);
    is_whole.then(|| Incarnation(u64::from_le_bytes(*incarnation)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The file of version 1, byte by byte.
    const PINNED: &[u8] = include_bytes!("../../tests/corpus/v1/closed");

    #[test]
    fn version_1_bytes_decode_and_encode_unchanged() {
        assert_eq!(encode(Incarnation(0x0102_0304_0506_0708)), PINNED);
        assert_eq!(decode(PINNED), Some(Incarnation(0x0102_0304_0506_0708)));
    }

    #[test]
    fn shutdown_marker_is_read_once_and_invalid_one_removed() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(take(root.path()), Ok(None));
        assert_eq!(read(root.path()), None);
        write(root.path(), Incarnation(7)).unwrap();
        assert_eq!(read(root.path()), Some(Incarnation(7)));
        assert_eq!(take(root.path()), Ok(Some(Incarnation(7))));
        assert_eq!(take(root.path()), Ok(None));
        replace_file(root.path(), FILE, b"zerohopc and no more").unwrap();
        assert_eq!(take(root.path()), Ok(None));
        assert!(!root.path().join(FILE).exists());
    }

    proptest! {
        #[test]
        fn shutdown_marker_roundtrips_and_changed_bytes_are_ignored(incarnation: u64, at in 0..BYTES, bit in 0..8) {
            let mut bytes = encode(Incarnation(incarnation));
            prop_assert_eq!(decode(&bytes), Some(Incarnation(incarnation)));
            prop_assert_eq!(decode(&bytes[..at]), None);
            bytes[at] ^= 1u8 << bit;
            prop_assert_eq!(decode(&bytes), None);
        }
    }
}
