//! The operator splits regions of ordered keyspaces at keys around those of the workload.

use zerohop_base::random::Random;
use zerohop_control::command::RegionSplit;
use zerohop_placement::{ClusterMap, KeyOrder, Separators};
use zerohop_wire::ids::KeyspaceId;

use crate::streams::Draw;

/// The most splits that are requested in a run.
const REQUESTS_MAX: u32 = 16;

/// The live bytes above which regions are split by their size: what few records of the workload have.
const REGION_BYTES: u64 = 4 << 10;

/// One of so many turns of the operator requests a split.
const OF_TURNS: u64 = 4;

/// The splits of regions. They have a stream of draws of their own, so that a scenario without ordered keyspaces stays as it is.
#[derive(Debug)]
pub(super) struct RegionSplits {
    random: Random,
    /// Regions are split in this run, if a keyspace is ordered.
    is_on: bool,
    /// Regions are also split by their size.
    is_by_size: bool,
    requested: u32,
    /// The keys at which regions may be split.
    keys: Vec<&'static [u8]>,
}

impl RegionSplits {
    /// In runs that split keyspaces, and in half of the others that may. At these keys.
    pub(super) fn new(
        mut random: Random,
        (may_split, splits_keyspaces): (bool, bool),
        keys: Vec<&'static [u8]>,
    ) -> RegionSplits {
        let is_by_size = may_split && random.clone().chance(1, 4);
        let is_on = may_split && (random.chance(1, 2) || splits_keyspaces);
        RegionSplits { random, is_on, is_by_size, requested: 0, keys }
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// The size above which regions are split.
    pub(super) fn limit(&self) -> Option<u64> {
        self.is_by_size.then_some(REGION_BYTES)
    }

    /// Whether one more split may be requested.
    pub(super) fn admit(&mut self) -> bool {
        let is_admitted = self.requested < REQUESTS_MAX;
        self.requested += u32::from(is_admitted);
        is_admitted
    }

    /// A key at which no region begins yet, if one of a few draws is.
    fn draw_separator(&mut self, known: &Separators) -> &'static [u8] {
        let drawn: [&[u8]; 4] = std::array::from_fn(|_| *self.random.pick(&self.keys));
        let is_new = |key: &&&[u8]| known.iter().all(|separator| separator != **key);
        drawn.iter().find(is_new).copied().unwrap_or(drawn[0])
    }

    /// A split of a region to request now, if there is one.
    pub(super) fn draw(&mut self, map: &ClusterMap) -> Option<RegionSplit> {
        let ordered: Vec<KeyspaceId> = map
            .keyspaces()
            .filter(|(_, found)| found.config().order == KeyOrder::Ordered && !found.is_dropping())
            .map(|(id, _)| id)
            .collect();
        let is_possible = self.is_on && self.requested < REQUESTS_MAX && !ordered.is_empty();
        if !is_possible || !self.random.chance(1, OF_TURNS) {
            return None;
        }
        let keyspace = *self.random.pick(&ordered);
        let found = map.keyspace(keyspace)?;
        let separator = self.draw_separator(found.division().separators());
        let share = *self.random.pick(&[1, 64, 128, 255]);
        let region = found.partition(separator);
        self.requested += 1;
        Some(RegionSplit { keyspace, region, separator: separator.into(), share })
    }
}
