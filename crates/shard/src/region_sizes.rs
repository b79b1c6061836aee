//! Splits of regions by their size. The primary of a region of an ordered keyspace measures it about once a second, and requests a split once its
//! live data is above a limit.
//!
//! ```text
//!   half of the limit ──> the lowest and the highest key are recorded
//!   the limit         ──> new keys are above the highest: at the region's last key        (a growing tail, such as a time series)
//!                         new keys are below the lowest:  behind the region's first key
//!                         otherwise:                      at a key near the middle of all keys
//! ```
//!
//! A child that still removes its sibling's records is not measured. So a region is never split again for records that it loses anyway. An instance
//! requests one split at a time, and repeats a request with growing pauses: the disk of a member may be full, or the region may move.
//!
//! A split ends the snapshots of its region. So a region with an open snapshot, such as that of a backup, may grow to a few times the limit.

use std::collections::BTreeMap;
use std::ops::Bound;

use zerohop_engine::disk::Disk;
use zerohop_engine::limits::DISK_RESERVE_BYTES;
use zerohop_engine::{Engine, EngineResult, Handle, KeyRange};
use zerohop_placement::{ClusterMap, GroupState, KeyOrder, KeyspaceName};
use zerohop_replication::Role;
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionId};

use super::partitions::PartitionTable;
use crate::limits::{REGION_CHECK_MS, REGION_SPLIT_AGAIN_MS, REGION_SPLIT_AGAIN_MS_MAX};

/// A child that receives no new keys gets this share of its parent's points, of 256.
const IDLE_SHARE: u8 = 1;
/// The share of the left child if both are as likely to be split again.
const HALF: u8 = 128;
/// Where a region may be divided, in sixteenths of its keys: near the middle first.
const SIXTEENTHS: [usize; 15] = [8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
/// A region with open snapshots is split above so many times the limit.
const SNAPSHOTS_LIMIT_FACTOR: u64 = 4;
/// This share of new keys at one end, in tenths, is growth at that end.
const END_GROWTH_TENTHS: usize = 9;

/// A region with more data than it should have, and the key at which it is to be split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeRegion {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// Its name.
    pub name: KeyspaceName,
    /// The region.
    pub region: PartitionId,
    /// The bytes of its live log entries.
    pub bytes: u64,
    /// The first key of the right child.
    pub separator: Vec<u8>,
    /// The left child's share of the points, of 256.
    pub share: u8,
}

/// What an instance knows about the sizes of regions; see the module.
#[derive(Debug)]
pub(super) struct RegionSizes {
    /// The limit of live bytes; `None`: regions are not split by their size.
    limit: Option<u64>,
    next_check_ms: u64,
    /// Regions above half of the limit whose primary is here.
    watched: BTreeMap<(KeyspaceId, PartitionId), WatchedRegion>,
}

/// A region above half of the limit.
#[derive(Debug)]
struct WatchedRegion {
    /// Its keys when it was first seen above half.
    before: Option<KeysBefore>,
    /// When a split may be requested, on the monotonic clock, and the pause after that.
    at_ms: u64,
    again_ms: u64,
}

/// The keys of a region at an earlier time.
#[derive(Debug)]
struct KeysBefore {
    count: usize,
    first: Vec<u8>,
    last: Vec<u8>,
}

/// The size of a region that may be split.
#[derive(Clone, Copy, Debug)]
struct RegionSize {
    /// Live bytes.
    bytes: u64,
    handle: Handle,
    has_snapshots: bool,
}

impl RegionSize {
    fn is_above(&self, limit: u64) -> bool {
        self.bytes > limit.saturating_mul(if self.has_snapshots { SNAPSHOTS_LIMIT_FACTOR } else { 1 })
    }
}

/// The end of a region at which its new keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GrowthEnd {
    Lowest,
    Highest,
}

impl Default for RegionSizes {
    fn default() -> RegionSizes {
        RegionSizes::with_limit(None)
    }
}

/// What is measured: the regions of an instance, by the map that it knows.
pub(super) struct MeasuredInstance<'i, D: Disk> {
    pub(super) engine: &'i mut Engine<D>,
    pub(super) partitions: &'i PartitionTable,
    pub(super) map: &'i ClusterMap,
    pub(super) instance: InstanceId,
    /// Splits that have not ended here.
    pub(super) splits_pending: usize,
}

impl RegionSizes {
    /// Regions with more live bytes than `limit` are to be split; `None`: none is split by its size.
    pub(super) fn with_limit(limit: Option<u64>) -> RegionSizes {
        RegionSizes { limit, next_check_ms: limit.map_or(u64::MAX, |_| 0), watched: BTreeMap::new() }
    }

    /// Whether [`Self::check`] has anything to do.
    #[inline]
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        self.next_check_ms <= now_ms
    }

    /// Measures the regions. Returns the largest above the limit, if its split is to be requested now.
    pub(super) fn check<D: Disk>(
        &mut self,
        now_ms: u64,
        here: &mut MeasuredInstance<'_, D>,
    ) -> EngineResult<Option<LargeRegion>> {
        let Some(limit) = self.limit else { return Ok(None) };
        self.next_check_ms = now_ms + REGION_CHECK_MS;
        let sizes = here.region_sizes();
        self.watched.retain(|place, _| sizes.get(place).is_some_and(|size| size.bytes > limit / 2));
        for (place, size) in sizes.iter().filter(|(_, size)| size.bytes > limit / 2) {
            if !self.watched.contains_key(place) {
                let before = here.keys_before(size.handle)?;
                let watched = WatchedRegion { before, at_ms: 0, again_ms: REGION_SPLIT_AGAIN_MS };
                self.watched.insert(*place, watched);
            }
        }
        if here.splits_pending > 0 {
            return Ok(None);
        }
        let is_due = |place| self.watched.get(place).is_some_and(|region| region.at_ms <= now_ms);
        let large = sizes.iter().filter(|(place, size)| size.is_above(limit) && is_due(place));
        let Some((place, size)) = large.max_by_key(|(_, size)| size.bytes) else { return Ok(None) };
        let Some(watched) = self.watched.get_mut(place) else { return Ok(None) };
        watched.at_ms = now_ms + watched.again_ms;
        watched.again_ms = REGION_SPLIT_AGAIN_MS_MAX.min(2 * watched.again_ms);
        // Both children have a copy of everything before the parent goes. Without room for these the region would not be served.
        let needed = DISK_RESERVE_BYTES.saturating_add(size.bytes.saturating_mul(2));
        if here.engine.disk().free_bytes()? < needed {
            return Ok(None);
        }
        here.split_of(*place, size, watched.before.as_ref())
    }
}

impl<D: Disk> MeasuredInstance<'_, D> {
    /// The live bytes of each region that may be split now: its primary is here and serves, and has no records of a sibling.
    fn region_sizes(&mut self) -> BTreeMap<(KeyspaceId, PartitionId), RegionSize> {
        let ordered = self
            .map
            .keyspaces()
            .filter(|(_, found)| found.config().order == KeyOrder::Ordered && !found.is_dropping());
        let regions =
            ordered.flat_map(|(id, found)| found.groups().map(move |(region, group)| (id, region, group)));
        let mut sizes = BTreeMap::new();
        for (id, region, group) in regions {
            if group.primary != self.instance || group.state != GroupState::Stable {
                continue;
            }
            let Some(replica) = self.partitions.replica(id, region) else { continue };
            let is_whole = replica.stats().removed_of_siblings.is_none();
            if replica.role() != Role::Primary || replica.view().epoch != group.epoch || !is_whole {
                continue;
            }
            let (handle, has_snapshots) = (replica.handle(), replica.stats().snapshots > 0);
            if let Ok(stats) = self.engine.partition_stats(handle) {
                let bytes = stats.log.bytes.saturating_sub(stats.log.dead_bytes);
                sizes.insert((id, region), RegionSize { bytes, handle, has_snapshots });
            }
        }
        sizes
    }

    fn keys_before(&mut self, handle: Handle) -> EngineResult<Option<KeysBefore>> {
        let end = |is_reverse| KeyRange { from: Bound::Unbounded, to: Bound::Unbounded, is_reverse };
        let count = self.engine.key_order(handle)?.count(end(false))?;
        let first = self.engine.key_order(handle)?.keys(end(false), 1, None)?.keys.pop();
        let last = self.engine.key_order(handle)?.keys(end(true), 1, None)?.keys.pop();
        Ok(first.zip(last).map(|(first, last)| KeysBefore { count, first, last }))
    }

    /// `None`: all its keys are parts of one blob, or have more bytes in common than a separator may have.
    fn split_of(
        &mut self,
        (keyspace, region): (KeyspaceId, PartitionId),
        size: &RegionSize,
        before: Option<&KeysBefore>,
    ) -> EngineResult<Option<LargeRegion>> {
        let RegionSize { bytes, handle, .. } = *size;
        let all = KeyRange { from: Bound::Unbounded, to: Bound::Unbounded, is_reverse: false };
        let count = self.engine.key_order(handle)?.count(all)?;
        let (first_choice, share) = match self.growth_end(handle, count, before)? {
            Some(GrowthEnd::Highest) => (Some(count.saturating_sub(1)), IDLE_SHARE),
            Some(GrowthEnd::Lowest) => (Some(1), u8::MAX),
            None => (None, HALF),
        };
        let near_middle = SIXTEENTHS.iter().map(|sixteenth| count * sixteenth / 16);
        let Some(found) = self.map.keyspace(keyspace) else { return Ok(None) };
        for rank in first_choice.into_iter().chain(near_middle) {
            let Some((left, right)) = self.engine.key_order(handle)?.pair_at(rank)? else { continue };
            let Some(separator) = found.division().separator_between(region, &left, &right) else { continue };
            let name = found.config().name.clone();
            return Ok(Some(LargeRegion { keyspace, name, region, bytes, separator, share }));
        }
        Ok(None)
    }

    /// The end at which the keys are that a region of `count` keys got since it was first seen above half of the limit.
    fn growth_end(
        &mut self,
        handle: Handle,
        count: usize,
        before: Option<&KeysBefore>,
    ) -> EngineResult<Option<GrowthEnd>> {
        let Some(KeysBefore { count: before, first, last }) = before else { return Ok(None) };
        let Some(growth) = count.checked_sub(*before).filter(|growth| *growth > 0) else { return Ok(None) };
        let below = KeyRange { from: Bound::Unbounded, to: Bound::Excluded(first), is_reverse: false };
        let above = KeyRange { from: Bound::Excluded(last), to: Bound::Unbounded, is_reverse: false };
        for (range, end) in [(above, GrowthEnd::Highest), (below, GrowthEnd::Lowest)] {
            if 10 * self.engine.key_order(handle)?.count(range)? >= END_GROWTH_TENTHS * growth {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }
}
