//! Scans of ranges of an ordered keyspace.
//!
//! Each page is of one moment, and of one region. A page continues behind the last key of the one before, whatever changed meanwhile: keys that
//! exist throughout are listed exactly once, in order. A region is requested when the one before it has no more keys; the next one is not requested
//! ahead.

use std::collections::VecDeque;

use bytes::Bytes;
use zerohop_placement::{KeyOrder, Separators};
use zerohop_wire::ids::PartitionId;
use zerohop_wire::limits::SCAN_PAGE_KEYS_MAX;
use zerohop_wire::messages::RecordType;
use zerohop_wire::{BadRequestReason, Failure};

use super::error::Error;
use super::keyspace::Keyspace;
use super::operation::Record;
use crate::limits::LONG_VALUES_BYTES_MAX;
use crate::planted::{Bug, is_planted};
use crate::{KeyRange, Reply, ScanKey, SessionRequest};

/// What is left of a scan of a range.
#[derive(Clone, Debug)]
pub(super) struct RangeScanState {
    pub(super) range: KeyRange,
    pub(super) prefix: Bytes,
    pub(super) page_keys: u32,
    /// Keys to list at most.
    pub(super) limit: u64,
    /// The region of the next page; `None` before the first page.
    region: Option<PartitionId>,
    /// The cursor of the next page in its region; `None` at the end.
    cursor: Option<Bytes>,
    /// The keys of the last page that are not returned yet.
    pending: VecDeque<ScanKey>,
    /// How many of them have all that is requested.
    ready: usize,
    /// Bytes of their values that no page had room for.
    long_bytes: usize,
}

impl RangeScanState {
    pub(super) fn new(range: KeyRange) -> RangeScanState {
        let cursor = (!range.is_empty()).then(Bytes::new);
        let (prefix, pending) = (Bytes::new(), VecDeque::new());
        let (page_keys, limit) = (SCAN_PAGE_KEYS_MAX, u64::MAX);
        RangeScanState {
            range,
            prefix,
            page_keys,
            limit,
            region: None,
            cursor,
            pending,
            ready: 0,
            long_bytes: 0,
        }
    }

    /// No key of the last page is left, so that the next page is due.
    pub(super) fn is_returned(&self) -> bool {
        self.pending.is_empty()
    }

    /// The region and the cursor of the next page, and the maximum number of its keys; `None` at the end.
    pub(super) fn next(&mut self, separators: &Separators) -> Option<(PartitionId, Bytes, u32)> {
        let keys = u32::try_from(self.limit).unwrap_or(u32::MAX).min(self.page_keys);
        let cursor = self.cursor.clone().filter(|_| keys > 0)?;
        let (first, last) = self.range.regions(&self.prefix, separators);
        let begin = if self.range.reverse { last } else { first };
        Some((*self.region.get_or_insert(begin), cursor, keys))
    }

    /// Takes a page. If its region has no more keys, the next page is of the region behind it, in the direction of the scan.
    pub(super) fn add_page(&mut self, reply: Reply, separators: &Separators) -> Result<(), Error> {
        let Reply::Page { next, keys } = reply else { return Err(Error::Unexpected) };
        let behind = self.region_behind(separators);
        let leaves_early =
            is_planted(Bug::ReverseLeavesRegionEarly) && self.range.reverse && behind.is_some();
        self.cursor = match behind {
            _ if !next.is_empty() && !leaves_early => Some(next),
            Some(region) => {
                self.region = Some(region);
                Some(Bytes::new())
            }
            None => None,
        };
        self.limit = self.limit.saturating_sub(keys.len() as u64);
        self.pending = keys.into();
        Ok(())
    }

    /// The region behind the present one that may have keys of the range too.
    fn region_behind(&self, separators: &Separators) -> Option<PartitionId> {
        let PartitionId(region) = self.region?;
        let (first, last) = self.range.regions(&self.prefix, separators);
        match self.range.reverse {
            true => region.checked_sub(1).map(PartitionId).filter(|next| *next >= first),
            false if is_planted(Bug::RangeEndsAtRegion) => None,
            false => Some(PartitionId(region + 1)).filter(|next| *next <= last),
        }
    }

    /// The next key whose value is to be read, unless the values that were read are enough to be returned.
    pub(super) fn missing_value(&mut self) -> Option<Bytes> {
        let is_missing = |listed: &ScanKey| listed.value.is_none() && listed.record == RecordType::Bytes;
        let has_all = |listed: &&ScanKey| !self.range.values || !is_missing(listed);
        self.ready += self.pending.iter().skip(self.ready).take_while(has_all).count();
        let next = self.pending.get(self.ready).filter(|_| self.long_bytes < LONG_VALUES_BYTES_MAX);
        next.map(|listed| listed.key.clone())
    }

    /// Takes the record of [`RangeScanState::missing_value`]. One that is gone is left out.
    pub(super) fn add_record(&mut self, record: Option<Record>) {
        let Some(listed) = self.pending.get_mut(self.ready) else { return };
        match record {
            Some(Record::Bytes { version, bytes, .. }) => {
                self.long_bytes += bytes.len();
                (listed.version, listed.value) = (version, Some(bytes));
            }
            Some(Record::List { version, .. }) => {
                (listed.version, listed.record) = (version, RecordType::List);
            }
            None => {
                self.pending.remove(self.ready);
                self.limit = self.limit.saturating_add(1);
            }
        }
    }

    /// The keys that have all that is requested.
    pub(super) fn return_ready(&mut self) -> Vec<ScanKey> {
        self.long_bytes = 0;
        self.pending.drain(..std::mem::take(&mut self.ready)).collect()
    }
}

/// A scan of a range of an ordered keyspace: see [`Keyspace::scan_range`].
#[derive(Clone, Debug)]
pub struct RangeScan {
    keyspace: Keyspace,
    rest: RangeScanState,
}

impl RangeScan {
    pub(super) fn new(keyspace: Keyspace, range: KeyRange) -> RangeScan {
        RangeScan { keyspace, rest: RangeScanState::new(range) }
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
    /// Returns the next keys; `None` at the end. After an error the caller can request the same page again. A page with values that are too
    /// long for one answer is returned in several parts.
    ///
    /// # Errors
    /// The keyspace is not ordered, the lower bound is above the upper one, or the page cannot be read within the client's
    /// deadline.
    pub async fn next_page(&mut self) -> Result<Option<Vec<ScanKey>>, Error> {
        check_order(&self.keyspace)?;
        loop {
            if self.rest.is_returned() {
                let config = self.keyspace.config();
                let next = self.rest.next(&config.separators);
                let Some((region, cursor, keys_max)) = next else { return Ok(None) };
                let at = ((region, config.partitions), cursor);
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
                self.rest.add_page(reply, &self.keyspace.config().separators)?;
            }
            // These values may be newer than the page.
            while let Some(key) = self.rest.missing_value() {
                let record = self.keyspace.lookup_range(&key, zerohop_wire::messages::Range::ALL).await?;
                self.rest.add_record(record);
            }
            let page = self.rest.return_ready();
            if !page.is_empty() {
                return Ok(Some(page));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use zerohop_wire::ids::Timestamp;

    use super::*;

    fn listed(key: usize, value: Option<Bytes>) -> ScanKey {
        let key = Bytes::from(key.to_string());
        ScanKey { key, partition: PartitionId(0), record: RecordType::Bytes, version: Timestamp(1), value }
    }

    /// The regions of the pages of a scan, each with the bytes of its cursor. Every region has two pages.
    fn regions_of(mut rest: RangeScanState) -> Vec<(u32, usize)> {
        let separators = Separators::new(["b", "d", "f"]).unwrap();
        let mut regions = Vec::new();
        while let Some((region, cursor, _)) = rest.next(&separators) {
            regions.push((region.get(), cursor.len()));
            let next = if cursor.is_empty() { Bytes::from_static(b"\x02key") } else { Bytes::new() };
            rest.add_page(Reply::Page { next, keys: Vec::new() }, &separators).expect("it is a page");
        }
        regions
    }

    #[test]
    fn pages_pass_from_region_to_region_in_both_directions() {
        let state = |range: KeyRange, reverse| {
            let mut state = RangeScanState::new(range);
            state.range.reverse = reverse;
            state
        };
        let all = || KeyRange::of::<&str>(..);
        let pages = |regions: &[u32]| -> Vec<(u32, usize)> {
            regions.iter().flat_map(|region| [(*region, 0), (*region, 4)]).collect()
        };
        assert_eq!(regions_of(state(all(), false)), pages(&[0, 1, 2, 3]));
        assert_eq!(regions_of(state(all(), true)), pages(&[3, 2, 1, 0]), "from the last region down");
        assert_eq!(regions_of(state(KeyRange::of("b".."f"), false)), pages(&[1, 2]));
        assert_eq!(regions_of(state(KeyRange::of("b".."f"), true)), pages(&[2, 1]));
        assert_eq!(regions_of(state(KeyRange::of("b"..="f"), true)), pages(&[3, 2, 1]));
        let mut prefixed = state(all(), false);
        prefixed.prefix = Bytes::from_static(b"c");
        assert_eq!(regions_of(prefixed), pages(&[1]));
        let mut limited = state(all(), false);
        limited.limit = 0;
        assert_eq!(regions_of(limited), []);
        assert_eq!(regions_of(state(KeyRange::of(..""), false)), [], "no key is in the range");
    }

    #[test]
    fn pages_of_long_values_are_returned_in_parts() {
        let mut rest = RangeScanState::new(KeyRange::of::<&str>(..));
        rest.range.values = true;
        rest.limit = 100;
        let keys = vec![
            listed(0, Some(Bytes::from_static(b"short"))),
            listed(1, None),
            listed(2, None),
            listed(3, Some(Bytes::new())),
            listed(4, None),
        ];
        let none = Separators::NONE;
        assert_eq!(rest.next(&none), Some((PartitionId(0), Bytes::new(), 100)));
        rest.add_page(Reply::Page { next: Bytes::new(), keys }, &none).expect("it is a page");
        let long = Bytes::from(vec![7; LONG_VALUES_BYTES_MAX - 1]);
        let record = |bytes: &Bytes| {
            let (version, length, bytes) = (Timestamp(2), bytes.len() as u64, bytes.clone());
            Some(Record::Bytes { version, length, bytes })
        };
        assert_eq!(rest.missing_value().as_deref(), Some(&b"1"[..]));
        // After an error the same value is requested again.
        assert_eq!(rest.missing_value().as_deref(), Some(&b"1"[..]));
        rest.add_record(record(&long));
        assert_eq!(rest.missing_value().as_deref(), Some(&b"2"[..]), "there is room for a byte");
        rest.add_record(record(&long));
        assert_eq!(rest.missing_value(), None, "the values are enough");
        let page = rest.return_ready();
        let lengths: Vec<usize> = page.iter().map(|one| one.value.as_ref().map_or(0, Bytes::len)).collect();
        assert_eq!(lengths, [5, long.len(), long.len(), 0]);
        assert_eq!(page[1].version, Timestamp(2));
        assert_eq!(rest.missing_value().as_deref(), Some(&b"4"[..]));
        rest.add_record(None);
        assert_eq!((rest.missing_value(), rest.return_ready()), (None, Vec::new()), "it is gone");
        assert!(rest.is_returned());
        assert_eq!((rest.limit, rest.next(&none)), (96, None), "a record that is gone does not count");
    }
}
