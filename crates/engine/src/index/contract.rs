//! What a store asks of its index, whatever the order of the keys.

use std::convert::Infallible;

use super::cursor::{Cursor, CursorFault, HashPosition};
use super::location::Location;
use super::{HashIndex, IndexSlot};

/// A key as the indexes know it: the hash index by a part of its hash, the ordered index by its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexKey<'a> {
    /// The part of its hash.
    pub fragment: u32,
    /// Its bytes.
    pub key: &'a [u8],
}

/// The key of an entry of a page, as far as the index has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PagedKey<'a> {
    /// A part of its hash. The key itself is in the log.
    Fragment(u32),
    /// The key.
    Key(&'a [u8]),
}

/// The index of one partition: the location of the newest version of each key.
///
/// Positions are [`Cursor`]s. A walk from [`Cursor::START`] visits every entry that exists throughout at least once, whatever
/// changes meanwhile. `seed` is that of the hash of keys; indexes that have another order do not use it.
pub trait Index {
    /// Number of entries.
    fn len(&self) -> usize;

    /// Whether it has no entries.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory that it uses, in bytes.
    fn bytes(&self) -> usize;

    /// Number of changes: as long as it stays the same, found slots stay valid.
    fn changes(&self) -> u64;

    /// Finds the entry of a key whose location `accept` accepts (it reads the key there).
    ///
    /// # Errors
    /// Errors of `accept`.
    fn find<E>(
        &self,
        key: IndexKey<'_>,
        accept: impl FnMut(Location) -> Result<bool, E>,
    ) -> Result<Option<(IndexSlot, Location)>, E>;

    /// Finds the entry of a key at exactly this location.
    fn find_slot(&self, key: IndexKey<'_>, location: Location) -> Option<(IndexSlot, Location)> {
        self.find(key, |l| Ok::<_, Infallible>(l.is_same_entry(location)))
            .unwrap_or_else(|never| match never {})
    }

    /// Prefetches what a lookup of this key reads first.
    fn prefetch(&self, key: IndexKey<'_>);

    /// Adds an entry; the caller has made sure that its key is not in the index.
    fn insert(&mut self, key: IndexKey<'_>, location: Location);

    /// Changes the location of a found entry.
    fn replace(&mut self, key: IndexKey<'_>, found: IndexSlot, location: Location);

    /// Removes a found entry.
    fn remove(&mut self, key: IndexKey<'_>, found: IndexSlot);

    /// Visits the entries of the page that a cursor is in: all behind the cursor, and perhaps, if it is behind a key, others of
    /// that key's fragment. Returns the cursor of the next page, if there is one.
    ///
    /// # Errors
    /// [`CursorFault`]: the cursor is none of this index.
    fn page(
        &self,
        seed: u64,
        from: &Cursor,
        visit: impl FnMut(PagedKey<'_>, Location),
    ) -> Result<Option<Cursor>, CursorFault>;

    /// The end of a slice of the keys that begins at a cursor, within the page of the cursor. The slice has at most so many keys
    /// and about so many bytes, of which an entry has as many as `bytes_of` says, but at least one key. `None`: it goes to the
    /// end of the keys.
    ///
    /// # Errors
    /// As [`Index::page`].
    fn range_end(
        &self,
        seed: u64,
        from: &Cursor,
        keys_and_bytes: (usize, u64),
        bytes_of: impl Fn(Location) -> u64,
    ) -> Result<Option<Cursor>, CursorFault>;

    /// The cursor behind a key and before all that follow it, whether the key exists or not.
    fn cursor_behind(&self, seed: u64, key: IndexKey<'_>) -> Cursor;

    /// Whether a key is before a cursor.
    ///
    /// # Errors
    /// As [`Index::page`].
    fn is_before(&self, seed: u64, key: IndexKey<'_>, cursor: &Cursor) -> Result<bool, CursorFault>;
}

impl Index for HashIndex {
    fn len(&self) -> usize {
        HashIndex::len(self)
    }

    fn bytes(&self) -> usize {
        HashIndex::bytes(self)
    }

    fn changes(&self) -> u64 {
        HashIndex::changes(self)
    }

    #[inline(always)]
    fn find<E>(
        &self,
        key: IndexKey<'_>,
        accept: impl FnMut(Location) -> Result<bool, E>,
    ) -> Result<Option<(IndexSlot, Location)>, E> {
        HashIndex::find(self, key.fragment, accept)
    }

    fn prefetch(&self, key: IndexKey<'_>) {
        self.touch(key.fragment);
    }

    #[inline]
    fn insert(&mut self, key: IndexKey<'_>, location: Location) {
        HashIndex::insert(self, key.fragment, location);
    }

    #[inline]
    fn replace(&mut self, _: IndexKey<'_>, found: IndexSlot, location: Location) {
        HashIndex::replace(self, found, location);
    }

    #[inline]
    fn remove(&mut self, _: IndexKey<'_>, found: IndexSlot) {
        HashIndex::remove(self, found);
    }

    fn page(
        &self,
        seed: u64,
        from: &Cursor,
        mut visit: impl FnMut(PagedKey<'_>, Location),
    ) -> Result<Option<Cursor>, CursorFault> {
        let from = HashPosition::decode(from, seed)?.fragment;
        let (entries, next) = self.page_entries(from);
        for (fragment, location) in entries.filter(|(fragment, _)| *fragment >= from) {
            visit(PagedKey::Fragment(fragment), location);
        }
        Ok(next.map(|fragment| HashPosition::of_fragment(fragment).encode(seed)))
    }

    fn range_end(
        &self,
        seed: u64,
        from: &Cursor,
        (most, bytes): (usize, u64),
        bytes_of: impl Fn(Location) -> u64,
    ) -> Result<Option<Cursor>, CursorFault> {
        let from = HashPosition::decode(from, seed)?.fragment;
        let (entries, next) = self.page_entries(from);
        let mut found: Vec<(u32, u64)> = entries
            .filter(|(fragment, _)| *fragment >= from)
            .map(|(fragment, location)| (fragment, bytes_of(location)))
            .collect();
        found.sort_unstable();
        let mut total_bytes = 0;
        let behind = found.into_iter().enumerate().find_map(|(before, (fragment, bytes_of_it))| {
            total_bytes += bytes_of_it;
            let is_over = before >= most.max(1) || before > 0 && total_bytes > bytes;
            // A fragment is never divided.
            is_over.then(|| fragment.max(from.saturating_add(1)))
        });
        let end = match behind {
            Some(u32::MAX) if from == u32::MAX => None,
            Some(fragment) => Some(fragment),
            None => next,
        };
        Ok(end.map(|fragment| HashPosition::of_fragment(fragment).encode(seed)))
    }

    fn cursor_behind(&self, seed: u64, key: IndexKey<'_>) -> Cursor {
        HashPosition { fragment: key.fragment, key: key.key }.encode(seed)
    }

    fn is_before(&self, seed: u64, key: IndexKey<'_>, cursor: &Cursor) -> Result<bool, CursorFault> {
        Ok(HashPosition { fragment: key.fragment, key: key.key } <= HashPosition::decode(cursor, seed)?)
    }
}
