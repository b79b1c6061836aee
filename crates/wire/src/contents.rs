//! The location of the contents of a blob that was replaced, and the names of staged contents.
//!
//! Chunks have the name of a blob in their keys ([`crate::blob`]). New contents for an existing blob are written under a staging name:
//!
//! ```text
//! 00 "zerohop staged" 00 | slot: 'a' to 'q' | name of the blob, or its beginning and 16 bytes of its SHA-256
//! ```
//!
//! The blob's contents are in one of the slots or in none. Each writer of new contents has a slot of its own, in which the blob's contents are not:
//! `a` or `b` if one is free, else `c` or `e` to `q`. A header under a staging name says that the contents of its slot are not bound. Slot `d` has
//! only a header, while the chunks under the blob's own name are removed.
//!
//! If the contents are under another name than the blob's, the attributes in its header begin with:
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 18 | 00 `"zerohop contents"` 00 |
//! | 18 | 8 | id in the stamps of the chunks |
//! | 26 | 8 | generation of the chunks while that of the header is 0; both rise together |
//! | 34 | 2 | N, bytes of the name |
//! | 36 | N | the name in the keys of the chunks |
//! | 36 + N | | the attributes of the blob's owner |
//!
//! Servers do not interpret this: for them it is attributes and names.

use sha2::{Digest, Sha256};

use crate::blob::BlobStamp;
use crate::limits::{BLOB_ATTRIBUTES_BYTES_MAX, BLOB_NAME_BYTES_MAX};

/// Prefix of staging names.
pub const STAGED_PREFIX: &[u8] = b"\0zerohop staged\0";
/// Prefix of the attributes if the contents are under another name.
const ELSEWHERE: &[u8] = b"\0zerohop contents\0";
const STAMP_BYTES: usize = 16;
const LENGTH_BYTES: usize = 2;
const DIGEST_BYTES: usize = 16;

/// The slot of staged or bound contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u8);

impl Slot {
    /// The slots for new contents: as many writers can stage contents for one blob at the same time, less one for the bound contents.
    pub const FOR_CONTENTS: [Self; 16] = {
        let (letters, mut slots, mut at) = (*b"abcefghijklmnopq", [Self(0); 16], 0);
        while at < slots.len() {
            slots[at] = Self(letters[at]);
            at += 1;
        }
        slots
    };
    /// The contents under the blob's own name, while they are removed.
    pub const DIRECT: Self = Self(b'd');

    /// The slot in which contents of this blob are that have `place` in the keys of their chunks.
    #[must_use]
    pub fn of(place: &[u8], name: &[u8]) -> Self {
        let letter = place.strip_prefix(STAGED_PREFIX).and_then(<[u8]>::first);
        let slot = Self::FOR_CONTENTS.into_iter().find(|slot| letter == Some(&slot.0));
        slot.filter(|slot| place == staged_name(name, *slot)).unwrap_or(Self::DIRECT)
    }
}

/// The staging name of a blob for a slot.
#[must_use]
pub fn staged_name(name: &[u8], slot: Slot) -> Vec<u8> {
    let begin = [STAGED_PREFIX, &[slot.0]].concat();
    let room = BLOB_NAME_BYTES_MAX - begin.len();
    if name.len() <= room {
        return [&begin, name].concat();
    }
    let digest: [u8; 32] = Sha256::digest(name).into();
    [&begin, &name[..room - DIGEST_BYTES], &digest[..DIGEST_BYTES]].concat()
}

/// The name of the blob to which a name belongs: the name itself, unless it is a staging name.
#[must_use]
pub fn blob_name_of(name: &[u8]) -> &[u8] {
    name.strip_prefix(STAGED_PREFIX).and_then(<[u8]>::split_first).map_or(name, |(_, name)| name)
}

/// A reference to contents under another name than the blob's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents<'a> {
    /// The name in the keys of the chunks.
    pub name: &'a [u8],
    /// The fence of the chunks, while the generation of the header is 0.
    pub stamp: BlobStamp,
}

impl<'a> Contents<'a> {
    /// How many bytes of attributes the owner can use if the blob's contents are under this name.
    #[must_use]
    pub fn attributes_max(name: &[u8]) -> usize {
        BLOB_ATTRIBUTES_BYTES_MAX - (ELSEWHERE.len() + STAMP_BYTES + LENGTH_BYTES + name.len())
    }

    /// Appends the prefix of the attributes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(ELSEWHERE);
        out.extend_from_slice(&self.stamp.encode());
        // A name has at most 4 KiB.
        out.extend_from_slice(&(self.name.len() as u16).to_le_bytes());
        out.extend_from_slice(self.name);
    }

    /// The reference to the contents, and the owner's attributes. `None`: the contents are under the blob's own name, and all attributes are the
    /// owner's.
    #[must_use]
    pub fn decode(attributes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (stamp, rest) = attributes.strip_prefix(ELSEWHERE)?.split_first_chunk::<STAMP_BYTES>()?;
        let (length, rest) = rest.split_first_chunk::<LENGTH_BYTES>()?;
        let (name, own) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        let is_name = (1..=BLOB_NAME_BYTES_MAX).contains(&name.len());
        is_name.then(|| (Self { name, stamp: BlobStamp::decode(stamp) }, own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_round_trip_and_leave_other_attributes_to_user() {
        let contents = Contents { name: b"ab", stamp: BlobStamp { id: 0x0807, generation: 3 } };
        let mut bytes = Vec::new();
        contents.encode(&mut bytes);
        let expected = b"\0zerohop contents\0\x07\x08\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x02\0ab";
        assert_eq!(bytes, expected);
        assert_eq!(bytes.len() + Contents::attributes_max(b"ab"), BLOB_ATTRIBUTES_BYTES_MAX);
        assert_eq!(Contents::decode(&[&bytes[..], b"own"].concat()), Some((contents, &b"own"[..])));
        assert_eq!(Contents::decode(&bytes[..bytes.len() - 1]), None);
        let nameless = [&bytes[..34], &[0, 0]].concat();
        assert_eq!(Contents::decode(&nameless), None);
        assert_eq!(Contents::decode(b"own"), None);
    }

    #[test]
    fn staging_names_differ_by_slot_and_name_and_are_never_too_long() {
        let (long, other) =
            (vec![b'x'; BLOB_NAME_BYTES_MAX], [vec![b'x'; BLOB_NAME_BYTES_MAX - 1], vec![b'y']].concat());
        let mut all: Vec<Vec<u8>> = Vec::new();
        for name in [&b"n"[..], b"m", &long, &other] {
            all.extend(Slot::FOR_CONTENTS.map(|slot| staged_name(name, slot)));
            assert!(Slot::FOR_CONTENTS.iter().all(|slot| Slot::of(&staged_name(name, *slot), name) == *slot));
            all.push(staged_name(name, Slot::DIRECT));
            assert_eq!(Slot::of(&all[all.len() - 1], name), Slot::DIRECT);
        }
        assert!(all.iter().all(|name| name.len() <= BLOB_NAME_BYTES_MAX && name.starts_with(STAGED_PREFIX)));
        assert_eq!(staged_name(b"n", Slot::FOR_CONTENTS[0]), b"\0zerohop staged\0an");
        assert_eq!(blob_name_of(&all[1]), b"n");
        assert_eq!(blob_name_of(b"n"), b"n");
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 4 * 17);
        assert_eq!(Slot::of(&staged_name(b"m", Slot::FOR_CONTENTS[0]), b"n"), Slot::DIRECT);
        assert_eq!(Slot::of(b"n", b"n"), Slot::DIRECT);
    }
}
