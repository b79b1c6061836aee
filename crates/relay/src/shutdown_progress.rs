//! The progress of the shutdown of a node's Redis side, and the units that it withholds.

use zerohop_placement::ClusterMap;
use zerohop_resp::{PartitionPlace, Unit};
use zerohop_wire::ids::InstanceId;

/// The progress of the shutdown.
#[derive(Debug, Default)]
pub(super) struct ShutdownProgress {
    /// Writes of partitions that others can take over wait until then, in milliseconds of the
    /// reactor's clock.
    pub(super) yields_until_ms: Option<u64>,
    pub(super) yielding: Option<StepProgress>,
    /// No command of a client is accepted any more.
    pub(super) ends: bool,
    pub(super) ending: Option<StepProgress>,
}

/// A step of the shutdown that has a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepProgress {
    UnderWay,
    Done,
}

impl ShutdownProgress {
    /// Whether a unit is not run here because another instance is about to be primary of its
    /// partition.
    pub(super) fn withholds(
        &self,
        (map, me): (&ClusterMap, InstanceId),
        to: PartitionPlace,
        unit: &Unit<'_>,
    ) -> bool {
        if self.yields_until_ms.is_none() || !unit.may_write() {
            return false;
        }
        let group = map.keyspace(to.keyspace).and_then(|found| found.group(to.partition));
        group.is_some_and(|group| group.primary == me && !group.in_sync.is_empty())
    }
}
