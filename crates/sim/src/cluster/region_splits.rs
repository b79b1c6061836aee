//! The operator splits regions of ordered keyspaces at keys around those of the workload.

use std::sync::Arc;

use zerohop_base::random::Random;
use zerohop_control::command::{ControlCommand, RegionSplit};
use zerohop_placement::{ClusterMap, KeyOrder};
use zerohop_wire::ids::KeyspaceId;

use super::scenario::region_keys;
use super::{ClusterPhase, SimulatedCluster};
use crate::kinds::FaultKind;
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
}

impl SimulatedCluster {
    /// A split of a region to request now, if there is one.
    pub(super) fn draw_region_split(&mut self, map: &Arc<ClusterMap>) -> Option<ControlCommand> {
        let ordered: Vec<KeyspaceId> = map
            .keyspaces()
            .filter(|(_, found)| found.config().order == KeyOrder::Ordered && !found.is_dropping())
            .map(|(id, _)| id)
            .collect();
        let splits = &mut self.region_splits;
        let is_time = self.phase == ClusterPhase::Faults
            && self.scenario.has(FaultKind::Splits)
            && splits.requested < REQUESTS_MAX
            && !ordered.is_empty()
            && splits.random.chance(1, 5);
        if !is_time {
            return None;
        }
        let keyspace = *splits.random.pick(&ordered);
        let keys = region_keys();
        let separator = *splits.random.pick(&keys);
        let share = *splits.random.pick(&[1, 64, 128, 255]);
        splits.requested += 1;
        let region = map.keyspace(keyspace)?.partition(separator);
        self.coverage.fault(FaultKind::Splits);
        self.begin_scans_over_split(keyspace);
        if self.transactional().is_some_and(|both| both.contains(&keyspace)) {
            self.begin_snapshots_over_split();
        }
        Some(ControlCommand::SplitRegion(RegionSplit {
            keyspace,
            region,
            separator: separator.into(),
            share,
        }))
    }
}
