//! The operator splits regions of ordered keyspaces at keys around those of the workload.

use zerohop_base::random::Random;
use zerohop_control::command::RegionSplit;
use zerohop_placement::{ClusterMap, KeyOrder};
use zerohop_wire::ids::KeyspaceId;

use super::scenario::region_keys;
use crate::streams::Draw;

/// The most splits that are requested in a run.
const REQUESTS_MAX: u32 = 8;

/// The splits of regions. They have a stream of draws of their own, so that a scenario without ordered keyspaces stays as it is.
#[derive(Debug)]
pub(super) struct RegionSplits {
    random: Random,
    requested: u32,
}

impl RegionSplits {
    pub(super) fn new(random: Random) -> RegionSplits {
        RegionSplits { random, requested: 0 }
    }

    /// A split of a region to request now, if there is one.
    pub(super) fn draw(&mut self, map: &ClusterMap) -> Option<RegionSplit> {
        let ordered: Vec<KeyspaceId> = map
            .keyspaces()
            .filter(|(_, found)| found.config().order == KeyOrder::Ordered && !found.is_dropping())
            .map(|(id, _)| id)
            .collect();
        if ordered.is_empty() || self.requested >= REQUESTS_MAX || !self.random.chance(1, 5) {
            return None;
        }
        self.requested += 1;
        let keyspace = *self.random.pick(&ordered);
        let separator = *self.random.pick(&region_keys());
        let share = *self.random.pick(&[1, 64, 128, 255]);
        let region = map.keyspace(keyspace)?.partition(separator);
        Some(RegionSplit { keyspace, region, separator: separator.into(), share })
    }
}
