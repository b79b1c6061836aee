//! The keys: paths of a file tree, decimal counters, random bytes.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Keys in the counter and the random set.
const GENERATED_KEYS: u64 = 1_000_000;
/// Most paths read from a tree, so that a run over a whole disk ends.
const PATHS_MAX: usize = 2_000_000;
/// The key length of the ZHT papers.
pub(crate) const RANDOM_KEY_BYTES: usize = 15;

/// A named set of keys.
pub(crate) struct KeySet {
    pub(crate) name: String,
    pub(crate) keys: Vec<Vec<u8>>,
}

/// The three sets; fails if `tree` cannot be read. Unreadable folders below it are skipped.
pub(crate) fn all(tree: &Path) -> io::Result<Vec<KeySet>> {
    Ok(vec![
        KeySet { name: format!("paths of {}", tree.display()), keys: paths(tree)? },
        KeySet {
            name: "decimal counters".into(),
            keys: (0..GENERATED_KEYS).map(|n| n.to_string().into_bytes()).collect(),
        },
        KeySet { name: "random, 15 bytes".into(), keys: random(GENERATED_KEYS as usize, RANDOM_KEY_BYTES) },
    ])
}

/// Reproducible random keys of one length.
pub(crate) fn random(count: usize, bytes: usize) -> Vec<Vec<u8>> {
    let mut state = 0x5eed_u64;
    let mut next = move || {
        // SplitMix64 (Steele, Lea, Flood 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    };
    (0..count)
        .map(|_| {
            let mut key: Vec<u8> = (0..bytes.div_ceil(8)).flat_map(|_| next().to_le_bytes()).collect();
            key.truncate(bytes);
            key
        })
        .collect()
}

/// Like [`random`], of lower-case letters and digits, without characters of a Redis hash tag.
pub(crate) fn random_text(count: usize, bytes: usize) -> Vec<Vec<u8>> {
    let letters = b"abcdefghijklmnopqrstuvwxyz012345";
    let text =
        |key: Vec<u8>| key.into_iter().map(|byte| letters[usize::from(byte) % letters.len()]).collect();
    random(count, bytes).into_iter().map(text).collect()
}

fn paths(tree: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    let mut folders = vec![std::fs::read_dir(tree)?];
    while let Some(folder) = folders.last_mut() {
        let Some(entry) = folder.next() else {
            folders.pop();
            continue;
        };
        let Ok(entry) = entry else { continue };
        if found.len() == PATHS_MAX {
            break;
        }
        found.push(entry.path().as_os_str().as_bytes().to_vec());
        // Symbolic links are not followed: `file_type` is that of the link.
        if entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Ok(inner) = std::fs::read_dir(entry.path())
        {
            folders.push(inner);
        }
    }
    Ok(found)
}
