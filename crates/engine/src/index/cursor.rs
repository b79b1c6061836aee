//! Cursors: opaque positions between the keys of an index.
//!
//! | index | bytes |
//! | --- | --- |
//! | any | none: before the first key |
//! | hash | 1; seed of the hash of keys (8); fragment (4); a key: behind it, none: before all keys of the fragment |
//! | ordered | 2; a key: before it, whether it exists or not |
//!
//! A cursor has bytes that may have been far away: with a client, or a member whose log has another seed. An index that did
//! not make a cursor, or made it for another order of the keys, refuses it. It never takes it for another position.

use std::fmt;

use crate::limits::KEY_BYTES_MAX;

const HASH_TAG: u8 = 1;
const ORDERED_TAG: u8 = 2;
/// Bytes of a cursor of the hash index before its key.
const HASH_HEAD_BYTES: usize = 1 + size_of::<u64>() + size_of::<u32>();
/// The longest cursor.
pub const CURSOR_BYTES_MAX: usize = KEY_BYTES_MAX + HASH_HEAD_BYTES;

/// A position between the keys of one index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cursor(Vec<u8>);

/// Why an index refuses a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorFault {
    /// It is longer than any cursor.
    TooLong,
    /// No index makes such bytes.
    Unknown,
    /// It is of an index of another kind.
    OtherIndex,
    /// It is of a hash index with another seed, and so another order of the keys.
    OtherSeed,
    /// The positions of this index have no numbers.
    NotNumbered,
}

impl fmt::Display for CursorFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CursorFault::TooLong => "it is too long",
            CursorFault::Unknown => "its bytes are no position",
            CursorFault::OtherIndex => "it is of an index of another kind",
            CursorFault::OtherSeed => "it is of an index with another order of the keys",
            CursorFault::NotNumbered => "positions of this index have no numbers",
        })
    }
}

impl Cursor {
    /// Before the first key, in every index.
    pub const START: Cursor = Cursor(Vec::new());

    /// The cursor with these bytes. Only its index can tell whether they are a position.
    ///
    /// # Errors
    /// [`CursorFault::TooLong`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Cursor, CursorFault> {
        if bytes.len() > CURSOR_BYTES_MAX {
            return Err(CursorFault::TooLong);
        }
        Ok(Cursor(bytes.to_vec()))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether it is before the first key of every index.
    pub fn is_start(&self) -> bool {
        self.0.is_empty()
    }
}

/// A position in a hash index: behind this key among those of the fragment, or before all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HashPosition<'a> {
    pub(crate) fragment: u32,
    pub(crate) key: &'a [u8],
}

impl<'a> HashPosition<'a> {
    /// Before all keys of a fragment.
    pub(crate) fn of_fragment(fragment: u32) -> HashPosition<'static> {
        HashPosition { fragment, key: &[] }
    }

    pub(crate) fn encode(self, seed: u64) -> Cursor {
        let mut bytes = Vec::with_capacity(HASH_HEAD_BYTES + self.key.len());
        bytes.push(HASH_TAG);
        bytes.extend_from_slice(&seed.to_le_bytes());
        bytes.extend_from_slice(&self.fragment.to_le_bytes());
        bytes.extend_from_slice(self.key);
        Cursor(bytes)
    }

    pub(crate) fn decode(cursor: &'a Cursor, seed: u64) -> Result<HashPosition<'a>, CursorFault> {
        let rest = match cursor.0.split_first() {
            None => return Ok(HashPosition::default()),
            Some((&HASH_TAG, rest)) => rest,
            Some((&ORDERED_TAG, _)) => return Err(CursorFault::OtherIndex),
            Some(_) => return Err(CursorFault::Unknown),
        };
        let (its_seed, rest) = rest.split_first_chunk().ok_or(CursorFault::Unknown)?;
        let (fragment, key) = rest.split_first_chunk().ok_or(CursorFault::Unknown)?;
        if u64::from_le_bytes(*its_seed) != seed {
            return Err(CursorFault::OtherSeed);
        }
        Ok(HashPosition { fragment: u32::from_le_bytes(*fragment), key })
    }
}

/// The cursor before a key in byte order, whether the key exists or not.
pub fn before_key(key: &[u8]) -> Cursor {
    Cursor([&[ORDERED_TAG], key].concat())
}

/// The key that a cursor in byte order is before; empty at the start.
///
/// # Errors
/// [`CursorFault`]: it is a position of a hash index, or none.
pub fn key_behind(cursor: &Cursor) -> Result<&[u8], CursorFault> {
    match cursor.0.split_first() {
        None => Ok(&[]),
        // The lowest key above one of full length has a byte more.
        Some((&ORDERED_TAG, key)) if key.len() <= KEY_BYTES_MAX + 1 => Ok(key),
        Some((&HASH_TAG, _)) => Err(CursorFault::OtherIndex),
        Some(_) => Err(CursorFault::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_of_another_seed_or_index_is_refused() {
        let position = HashPosition { fragment: 7, key: b"k" };
        let cursor = position.encode(9);
        assert_eq!(HashPosition::decode(&cursor, 9), Ok(position));
        assert_eq!(HashPosition::decode(&cursor, 8), Err(CursorFault::OtherSeed));
        assert_eq!(key_behind(&cursor), Err(CursorFault::OtherIndex));
        let ordered = before_key(b"k");
        assert_eq!(key_behind(&ordered), Ok(&b"k"[..]));
        assert_eq!(HashPosition::decode(&ordered, 9), Err(CursorFault::OtherIndex));
    }

    #[test]
    fn forged_cursor_is_refused() {
        let of = |bytes: &[u8]| Cursor::from_bytes(bytes).expect("is short");
        for bytes in [&[0][..], &[3; 40], &[0xFF; 13], &[HASH_TAG], &[HASH_TAG; HASH_HEAD_BYTES - 1]] {
            assert_eq!(HashPosition::decode(&of(bytes), 1), Err(CursorFault::Unknown), "{bytes:?}");
        }
        assert_eq!(key_behind(&of(&[0])), Err(CursorFault::Unknown));
        assert_eq!(key_behind(&of(&[ORDERED_TAG; KEY_BYTES_MAX + 3])), Err(CursorFault::Unknown));
        let longest = vec![HASH_TAG; CURSOR_BYTES_MAX];
        assert!(HashPosition::decode(&of(&longest), u64::from_le_bytes([HASH_TAG; 8])).is_ok());
        assert_eq!(Cursor::from_bytes(&vec![HASH_TAG; CURSOR_BYTES_MAX + 1]), Err(CursorFault::TooLong));
    }

    #[test]
    fn start_is_before_every_position() {
        assert_eq!(HashPosition::decode(&Cursor::START, 5), Ok(HashPosition::of_fragment(0)));
        assert_eq!(key_behind(&Cursor::START), Ok(&[][..]));
        assert!(Cursor::START.is_start() && !before_key(&[]).is_start());
    }
}
