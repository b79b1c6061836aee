//! Ranges of the keys of an ordered store.

use std::ops::{Bound, RangeBounds};

use zerohop_placement::KeyOrder;

use super::error::StoreError;
use super::request::{RangeRequest, StoreOperation, StoreOutcome, StoreRecord};
use super::{EmbeddedStore, limits};

/// An iterator over a range of the records of an ordered store, in the byte order of their keys: see [`EmbeddedStore::scan_range`].
///
/// A record that exists during the complete iteration is returned exactly once. One that is added or removed meanwhile may be missing. The
/// iteration ends after an error.
#[derive(Debug)]
pub struct StoreRange {
    store: EmbeddedStore,
    request: RangeRequest,
    /// Whether pages are left behind the current one.
    has_more: bool,
    page: std::vec::IntoIter<StoreRecord>,
}

impl StoreRange {
    pub(super) fn new<K: AsRef<[u8]>>(store: EmbeddedStore, bounds: impl RangeBounds<K>) -> StoreRange {
        let above = |key: &K| [key.as_ref(), &[0]].concat();
        let from = match bounds.start_bound() {
            Bound::Included(key) => key.as_ref().to_vec(),
            Bound::Excluded(key) => above(key),
            Bound::Unbounded => Vec::new(),
        };
        let to = match bounds.end_bound() {
            Bound::Included(key) => Some(above(key)),
            Bound::Excluded(key) => Some(key.as_ref().to_vec()),
            Bound::Unbounded => None,
        };
        let request = RangeRequest { from, to, ..RangeRequest::default() };
        StoreRange { store, request, has_more: true, page: Vec::new().into_iter() }
    }

    /// Only keys that begin with `prefix`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<Vec<u8>>) -> Self {
        self.request.prefix = prefix.into();
        self
    }

    /// From the highest key down.
    #[must_use]
    pub fn reverse(mut self) -> Self {
        self.request.reverse = true;
        self
    }

    /// With the values of bytes records.
    #[must_use]
    pub fn values(mut self) -> Self {
        self.request.values = true;
        self
    }

    /// Whether there is another page, which is then the current one.
    fn next_page(&mut self) -> Result<bool, StoreError> {
        if !self.has_more {
            return Ok(false);
        }
        let RangeRequest { from, to, .. } = &self.request;
        if self.store.shared.settings.order != KeyOrder::Ordered {
            return Err(StoreError::NotOrdered);
        }
        if to.as_ref().is_some_and(|to| from > to) {
            return Err(StoreError::Bounds);
        }
        // No key is below the empty one, which as an upper bound of a request means the end of the keys.
        if to.as_ref().is_some_and(Vec::is_empty) {
            return Ok(false);
        }
        let operation = StoreOperation::Range(self.request.clone());
        // An ordered store has one instance.
        let StoreOutcome::Range { records, next } =
            self.store.shared.call(0, operation, limits::ANSWER_WAIT)?
        else {
            unreachable!("a range is answered with records")
        };
        self.has_more = !next.is_empty();
        (self.page, self.request.cursor) = (records.into_iter(), next);
        Ok(true)
    }

    /// Reads the value of a record that had no room in its page. The value may be newer than the page; `None`: the record is gone.
    fn complete(&self, record: StoreRecord) -> Result<Option<StoreRecord>, StoreError> {
        if !self.request.values || record.is_list || record.value.is_some() {
            return Ok(Some(record));
        }
        match self.store.lookup(&record.key) {
            Ok(value) => Ok(value.map(|value| StoreRecord { value: Some(value), ..record })),
            Err(StoreError::WrongType { is_list }) => Ok(Some(StoreRecord { is_list, ..record })),
            Err(error) => Err(error),
        }
    }

    fn next_record(&mut self) -> Result<Option<StoreRecord>, StoreError> {
        loop {
            if let Some(record) = self.page.next() {
                if let Some(record) = self.complete(record)? {
                    return Ok(Some(record));
                }
            } else if !self.next_page()? {
                return Ok(None);
            }
        }
    }
}

impl Iterator for StoreRange {
    type Item = Result<StoreRecord, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_record();
        if next.is_err() {
            (self.page, self.has_more) = (Vec::new().into_iter(), false);
        }
        next.transpose()
    }
}
