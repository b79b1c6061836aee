//! Scans of ranges of an ordered keyspace.
//!
//! Each page is of one moment, and of one region. A page continues behind the last key of the one before, whatever changed meanwhile: keys that
//! exist throughout are listed exactly once, in order. A region is requested when the one before it has no more keys; the next one is not requested
//! ahead. If the region of the next page was split, its children are requested in its place, each with its cursor.

use std::collections::VecDeque;

use bytes::Bytes;
use zerohop_placement::{Division, KeyOrder};
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
    /// The regions behind it that were split from one region with it, each with the cursor of its first page.
    siblings: VecDeque<(PartitionId, Bytes)>,
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
            siblings: VecDeque::new(),
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
    pub(super) fn next(&mut self, division: &Division) -> Option<(PartitionId, Bytes, u32)> {
        let keys = u32::try_from(self.limit).unwrap_or(u32::MAX).min(self.page_keys);
        let cursor = self.cursor.clone().filter(|_| keys > 0)?;
        let (first, last) = self.range.regions(&self.prefix, division.separators());
        let begin = if self.range.reverse { last } else { first };
        Some((*self.region.get_or_insert_with(|| division.at(begin)), cursor, keys))
    }

    /// The region of the next page was split: its children, in the direction of the scan, are requested with its cursor.
    pub(super) fn follow_split(&mut self, division: &Division) {
        let (Some(region), Some(cursor)) = (self.region, self.cursor.clone()) else { return };
        let mut children = division.descendants(region);
        if !self.range.reverse {
            children.reverse();
        }
        if is_planted(Bug::RangeSkipsSibling) {
            children.drain(..children.len().saturating_sub(1));
        }
        let cursor = if is_planted(Bug::RangeCursorLost) { Bytes::new() } else { cursor };
        // From the last one to the first.
        for child in children {
            self.siblings.push_front((child, cursor.clone()));
        }
        if let Some((first, _)) = self.siblings.pop_front() {
            self.region = Some(first);
        }
    }

    /// Takes a page. If its region has no more keys, the next page is of the region behind it, in the direction of the scan.
    pub(super) fn add_page(&mut self, reply: Reply, division: &Division) -> Result<(), Error> {
        let Reply::Page { next, keys } = reply else { return Err(Error::Unexpected) };
        let behind = self.region_behind(division);
        let leaves_early =
            is_planted(Bug::ReverseLeavesRegionEarly) && self.range.reverse && behind.is_some();
        self.cursor = match behind {
            _ if !next.is_empty() && !leaves_early => Some(next),
            Some((region, cursor)) => {
                self.region = Some(region);
                self.siblings.pop_front();
                Some(cursor)
            }
            None => None,
        };
        self.limit = self.limit.saturating_sub(keys.len() as u64);
        self.pending = keys.into();
        Ok(())
    }

    /// The region behind the present one that may have keys of the range too, and the cursor of its first page.
    fn region_behind(&self, division: &Division) -> Option<(PartitionId, Bytes)> {
        if let Some(sibling) = self.siblings.front() {
            return Some(sibling.clone());
        }
        let position = division.position(self.region?)?;
        let (first, last) = self.range.regions(&self.prefix, division.separators());
        let behind = match self.range.reverse {
            true => position.checked_sub(1).filter(|next| *next >= first),
            false if is_planted(Bug::RangeEndsAtRegion) => None,
            false => Some(position + 1).filter(|next| *next <= last),
        };
        behind.map(|position| (division.at(position), Bytes::new()))
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
    division: Division,
    rest: RangeScanState,
}

impl RangeScan {
    pub(super) fn new(keyspace: Keyspace, range: KeyRange) -> RangeScan {
        let division = keyspace.division().clone();
        RangeScan { keyspace, division, rest: RangeScanState::new(range) }
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
                let next = self.rest.next(&self.division);
                let Some((region, cursor, keys_max)) = next else { return Ok(None) };
                let at = ((region, self.division.count()), cursor);
                let (prefix, range) = (self.rest.prefix.clone(), self.rest.range.clone());
                let client = self.keyspace.client().clone();
                let request = SessionRequest::scan_range(
                    self.keyspace.id(),
                    at,
                    (prefix, keys_max),
                    range,
                    client.limit_us(),
                );
                match client.send_request(request).await {
                    Ok(reply) => self.rest.add_page(reply, &self.division)?,
                    Err(error) => {
                        let Some((_, division)) = error.split_into() else { return Err(error) };
                        self.division = division.clone();
                        self.rest.follow_split(&self.division);
                        continue;
                    }
                }
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
    use zerohop_placement::{
        Address, ClusterMap, KeyspaceConfig, MapChange, MapDelta, Node, NodeState, ReplicaGroup, Separators,
    };
    use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, NodeId, PartitionEpoch, Timestamp};

    use super::*;

    fn listed(key: usize, value: Option<Bytes>) -> ScanKey {
        let key = Bytes::from(key.to_string());
        ScanKey { key, partition: PartitionId(0), record: RecordType::Bytes, version: Timestamp(1), value }
    }

    /// The regions of the pages of a scan, each with the bytes of its cursor. Every region has two pages.
    fn regions_of(mut rest: RangeScanState) -> Vec<(u32, usize)> {
        let division = division(&["b", "d", "f"]);
        let mut regions = Vec::new();
        while let Some((region, cursor, _)) = rest.next(&division) {
            regions.push((region.get(), cursor.len()));
            let next = if cursor.is_empty() { Bytes::from_static(b"\x02key") } else { Bytes::new() };
            rest.add_page(Reply::Page { next, keys: Vec::new() }, &division).expect("it is a page");
        }
        regions
    }

    fn division(separators: &[&str]) -> Division {
        let config = KeyspaceConfig::new("ordered".parse().unwrap(), 7);
        Division::new(&config.divided_at(Separators::new(separators).unwrap()))
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

    /// The regions of the pages of a scan of which region 1 is split at the second page, each with the bytes of its cursor.
    fn regions_over_split(reverse: bool) -> Vec<(u32, usize)> {
        let mut rest = RangeScanState::new(KeyRange::of::<&str>(..));
        rest.range.reverse = reverse;
        let (map, id) = map(&["b", "d"]);
        let mut division = map.keyspace(id).unwrap().division().clone();
        let (mut regions, mut is_split) = (Vec::new(), false);
        while let Some((region, cursor, _)) = rest.next(&division) {
            if (region.get(), cursor.is_empty(), is_split) == (1, false, false) {
                let split = |region, separator: &[u8]| MapChange::SplitRegion {
                    keyspace: id,
                    region: PartitionId(region),
                    separator: separator.into(),
                    share: 128,
                };
                let changes = vec![split(1, b"c"), split(4, b"ca")];
                let delta = MapDelta { from: map.epoch(), to: map.epoch().next(), changes };
                division = map.apply(&delta).unwrap().keyspace(id).unwrap().division().clone();
                rest.follow_split(&division);
                is_split = true;
                continue;
            }
            regions.push((region.get(), cursor.len()));
            let next = if cursor.is_empty() { Bytes::from_static(b"\x02key") } else { Bytes::new() };
            rest.add_page(Reply::Page { next, keys: Vec::new() }, &division).expect("it is a page");
        }
        regions
    }

    fn map(separators: &[&str]) -> (ClusterMap, KeyspaceId) {
        let address = || Address::new("127.0.0.1:1").unwrap();
        let node = Node {
            id: NodeId(1),
            state: NodeState::Up,
            incarnation: Incarnation(1),
            manager: address(),
            first_instance: InstanceId(0),
            instances: vec![address()],
        };
        let id = KeyspaceId(7);
        let config = KeyspaceConfig::new("ordered".parse().unwrap(), 7).fitted_to(1);
        let config = config.divided_at(Separators::new(separators).unwrap());
        let one = |_| ReplicaGroup::of_one(PartitionEpoch(1), InstanceId(0));
        let groups = (0..config.partitions.get()).map(one).collect();
        let map = ClusterMap::of_one_node(node, 1).unwrap();
        let changes = vec![MapChange::CreateKeyspace { id, config, groups }];
        (map.apply(&MapDelta { from: map.epoch(), to: map.epoch().next(), changes }).unwrap(), id)
    }

    #[test]
    fn children_of_a_split_region_are_requested_with_its_cursor() {
        assert_eq!(
            regions_over_split(false),
            [(0, 0), (0, 4), (1, 0), (3, 4), (5, 4), (6, 4), (2, 0), (2, 4)]
        );
        assert_eq!(
            regions_over_split(true),
            [(2, 0), (2, 4), (1, 0), (6, 4), (5, 4), (3, 4), (0, 0), (0, 4)]
        );
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
        let none = division(&[]);
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
