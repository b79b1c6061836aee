//! Scans of ranges of an ordered keyspace.
//!
//! Each page is of one moment. A page continues behind the last key of the one before, whatever changed meanwhile: keys that
//! exist throughout are listed exactly once, in order.

use bytes::Bytes;
use zerohop_placement::KeyOrder;
use zerohop_wire::ids::PartitionId;
use zerohop_wire::limits::SCAN_PAGE_KEYS_MAX;
use zerohop_wire::messages::RecordType;
use zerohop_wire::{BadRequestReason, Failure};

use super::error::Error;
use super::keyspace::Keyspace;
use super::operation::Record;
use crate::{KeyRange, ListedKey, Reply, SessionRequest};

/// What is left of a scan of a range.
#[derive(Clone, Debug)]
pub(super) struct Rest {
    pub(super) range: KeyRange,
    pub(super) prefix: Bytes,
    pub(super) page_keys: u32,
    /// Keys to list at most.
    pub(super) limit: u64,
    /// The cursor of the next page; `None` at the end.
    cursor: Option<Bytes>,
}

impl Rest {
    pub(super) fn new(range: KeyRange) -> Rest {
        let cursor = (!range.is_empty()).then(Bytes::new);
        Rest { range, prefix: Bytes::new(), page_keys: SCAN_PAGE_KEYS_MAX, limit: u64::MAX, cursor }
    }

    /// The cursor of the next page, and the maximum number of its keys; `None` at the end.
    pub(super) fn next(&self) -> Option<(Bytes, u32)> {
        let keys = u32::try_from(self.limit).unwrap_or(u32::MAX).min(self.page_keys);
        self.cursor.clone().filter(|_| keys > 0).map(|cursor| (cursor, keys))
    }

    /// Takes a page. The rest is what its cursor is before.
    pub(super) fn page_of(&mut self, reply: Reply) -> Result<Vec<ListedKey>, Error> {
        let Reply::Page { next, keys } = reply else { return Err(Error::Unexpected) };
        self.cursor = (!next.is_empty()).then_some(next);
        self.limit = self.limit.saturating_sub(keys.len() as u64);
        Ok(keys)
    }
}

/// A scan of a range of an ordered keyspace: see [`Keyspace::scan_range`].
#[derive(Clone, Debug)]
pub struct RangeScan {
    keyspace: Keyspace,
    rest: Rest,
}

impl RangeScan {
    pub(super) fn new(keyspace: Keyspace, range: KeyRange) -> RangeScan {
        RangeScan { keyspace, rest: Rest::new(range) }
    }
}

macro_rules! options_of_ranges {
    ($scan:ty) => {
        impl $scan {
            /// Only keys that begin with `prefix`.
            #[must_use]
            pub fn prefix(mut self, prefix: impl Into<Bytes>) -> Self {
                self.rest.prefix = prefix.into();
                self
            }

            /// From the highest key down.
            #[must_use]
            pub fn reverse(mut self) -> Self {
                self.rest.range.reverse = true;
                self
            }

            /// With the values of bytes records. Without this only keys, types and versions are listed.
            #[must_use]
            pub fn values(mut self) -> Self {
                self.rest.range.values = true;
                self
            }

            /// Ends after so many keys.
            #[must_use]
            pub fn limit(mut self, keys: u64) -> Self {
                self.rest.limit = keys;
                self
            }

            /// Sets the maximum number of keys of one page, 1 to 4,096.
            #[must_use]
            pub fn page_keys(mut self, keys: u32) -> Self {
                self.rest.page_keys = keys.clamp(1, SCAN_PAGE_KEYS_MAX);
                self
            }

            /// Sets the number of bytes of keys and values after which a page ends, though it has at least one key. A page has
            /// at most 1 MiB.
            #[must_use]
            pub fn page_bytes(mut self, bytes: u32) -> Self {
                self.rest.range.bytes_max = bytes.max(1);
                self
            }
        }
    };
}

pub(super) use options_of_ranges;

options_of_ranges!(RangeScan);

pub(super) fn check_order(keyspace: &Keyspace) -> Result<(), Error> {
    match keyspace.config().order {
        KeyOrder::Ordered => Ok(()),
        KeyOrder::Hashed => {
            let failure = Failure::BadRequest { reason: BadRequestReason::NotOrdered };
            Err(Error::general(crate::SessionError::Answer { failure }))
        }
    }
}

impl RangeScan {
    /// Returns the next keys; `None` at the end. After an error the caller can request the same page again.
    ///
    /// # Errors
    /// The keyspace is not ordered, the lower bound is above the upper one, or the page cannot be read within the client's
    /// deadline.
    pub async fn next_page(&mut self) -> Result<Option<Vec<ListedKey>>, Error> {
        check_order(&self.keyspace)?;
        while let Some((cursor, keys_max)) = self.rest.next() {
            let partitions = self.keyspace.config().partitions;
            let at = ((PartitionId(0), partitions), cursor);
            let (prefix, range) = (self.rest.prefix.clone(), self.rest.range.clone());
            let client = self.keyspace.client().clone();
            let request = SessionRequest::scan_range(
                self.keyspace.id(),
                at,
                (prefix, keys_max),
                range,
                client.limit_us(),
            );
            let reply = client.send_request(request).await?;
            let mut before = self.rest.clone();
            let mut page = before.page_of(reply)?;
            self.read_long_values(&mut page).await?;
            self.rest = before;
            if !page.is_empty() {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    /// Reads the values that no page has room for. They may be newer than the page; records that are gone are left out.
    async fn read_long_values(&self, page: &mut Vec<ListedKey>) -> Result<(), Error> {
        if !self.rest.range.values {
            return Ok(());
        }
        let mut gone = Vec::new();
        for (at, listed) in page.iter_mut().enumerate().filter(|(_, listed)| lacks_value(listed)) {
            match self.keyspace.lookup_range(&listed.key, zerohop_wire::messages::Range::ALL).await? {
                Some(record) => fill(listed, record),
                None => gone.push(at),
            }
        }
        gone.iter().rev().for_each(|at| drop(page.remove(*at)));
        Ok(())
    }
}

/// A value is too long for a page.
pub(super) fn lacks_value(listed: &ListedKey) -> bool {
    listed.value.is_none() && listed.record == RecordType::Bytes
}

pub(super) fn fill(listed: &mut ListedKey, record: Record) {
    match record {
        Record::Bytes { version, bytes, .. } => {
            (listed.version, listed.value) = (version, Some(bytes));
        }
        Record::List { version, .. } => (listed.version, listed.record) = (version, RecordType::List),
    }
}
