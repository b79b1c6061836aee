//! Opens an instance: its engine, and every partition that the map assigns to it.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineOptions, RecoveryReport};
use zerohop_placement::{ClusterMap, KeyOrder, Keyspace, MapHistory, RegionTable};
use zerohop_wire::ids::{InstanceId, KeyspaceId, MapEpoch, PartitionId, Timestamp};

use super::clock::{ClockReading, InstanceClock};
use super::connections::Connections;
use super::engine_name::named;
use super::member_options::durability;
use super::open_error::InstanceOpenError;
use super::partitions::{PartitionTable, is_shared};
use super::read_locks::ReadLocks;
use super::readiness::Readiness;
use super::splits::{Splits, drop_stored, split_stored};
use super::stats::RequestCounters;
use super::{Identity, Instance, Maintenance};

/// Options of an instance.
#[derive(Clone, Copy, Debug)]
pub struct InstanceOptions {
    /// The identity of the instance.
    pub identity: Identity,
    /// Options of its engine. Checkpoints never start alone here, whatever these say.
    pub engine: EngineOptions,
}

/// The result of opening an instance.
#[derive(Clone, Debug, Default)]
pub struct OpenReport {
    /// The engine's report.
    pub engine: RecoveryReport,
    /// Partitions that were opened.
    pub partitions: usize,
    /// Partitions whose sessions and deadlines could not all be read. Their sessions are expired, so that no write is done twice.
    pub lost_states: Vec<(KeyspaceId, PartitionId)>,
    /// Stored partitions that were removed, because the map does not assign them to this instance (their keyspace was dropped),
    /// or has them in memory (their keyspace was altered).
    pub removed: usize,
}

impl<D: Disk> Instance<D> {
    /// Opens the storage on `disk`, and every partition whose primary is this instance according to the map. Partitions that the
    /// map does not assign to this instance are removed. The map must therefore not be older than this start, or newer partitions
    /// would be removed. An empty map says nothing about the stored partitions.
    ///
    /// # Errors
    /// See [`InstanceOpenError`].
    pub fn open(
        disk: D,
        options: InstanceOptions,
        history: MapHistory,
        now: ClockReading,
    ) -> Result<(Instance<D>, OpenReport), InstanceOpenError> {
        let identity = options.identity;
        let engine_options = EngineOptions { starts_checkpoints: false, ..options.engine };
        let (mut engine, report) = Engine::open(disk, engine_options)?;
        let mut opened = OpenReport { engine: report, ..OpenReport::default() };
        let splits = split_stored(&mut engine, history.map(), identity.instance)?;
        opened.removed = remove_unassigned(&mut engine, &history, identity.instance, &splits)?;
        let mut instance = Instance {
            identity,
            engine,
            partitions: PartitionTable::new(identity, now, Timestamp::ZERO),
            splits,
            failed_map_changes: Default::default(),
            readiness: Readiness::of(history.map()),
            newest_keyspace: newest_keyspace(history.map()),
            history,
            connections: Connections::default(),
            clock: InstanceClock::new(now, Timestamp::ZERO),
            counters: RequestCounters::default(),
            transit: Default::default(),
            is_stopping: false,
            maintenance: Maintenance::default(),
            // The previous process may have granted read locks; it has granted none since.
            holding: ReadLocks::begun_at(now.elapsed_ms),
        };
        let map = instance.map().clone();
        let (mut newest, mut shared) = (Timestamp::ZERO, Vec::new());
        for (keyspace, id, group) in map.partitions_of(identity.instance) {
            let Some(found) = map.keyspace(keyspace).filter(|_| !instance.splits.awaits(keyspace, id)) else {
                continue;
            };
            if is_shared(&map, identity, group) {
                shared.push((keyspace, id));
                continue;
            }
            let (stored, is_state_lost) = instance.open_lone(keyspace, id, found, group)?;
            if is_state_lost {
                opened.lost_states.push((keyspace, id));
            }
            newest = newest.max(stored);
        }
        instance.clock = InstanceClock::new(now, newest);
        instance.open_all_shared(&shared)?;
        opened.partitions = instance.partitions.len();
        Ok((instance, opened))
    }
}

/// The keyspace of a map that was created last; ids rise.
pub(super) fn newest_keyspace(map: &ClusterMap) -> KeyspaceId {
    map.keyspaces().last().map_or(KeyspaceId::NONE, |(id, _)| id)
}

/// Whether a region is a child of a split that a map does not have.
fn is_of_later_split(found: &Keyspace, region: PartitionId) -> bool {
    let next = found.division().regions().table().map_or(found.config().partitions.get(), RegionTable::next);
    found.config().order == KeyOrder::Ordered && region.get() >= next
}

/// Removes partitions left behind by a drop that a crash has interrupted; keyspace ids are never used again. Also removes stored
/// partitions of a keyspace that was changed to memory, which starts empty.
fn remove_unassigned<D: Disk>(
    engine: &mut Engine<D>,
    history: &MapHistory,
    instance: InstanceId,
    splits: &Splits,
) -> Result<usize, InstanceOpenError> {
    if history.map().epoch() == MapEpoch(0) {
        return Ok(0);
    }
    let foreign = engine.partitions().map(|(id, _)| id).filter(|id| {
        let (keyspace, level, partition) = named(*id);
        if splits.waits((keyspace, level, partition)) {
            return false;
        }
        let found = history.map().keyspace(keyspace);
        // The partition belongs to a newer map, which is on its way here.
        if found.is_some_and(|found| level > found.splits() || is_of_later_split(found, partition)) {
            return false;
        }
        let found = found.filter(|found| level == found.splits());
        let on_disk = found.filter(|found| durability(found.config()) != zerohop_engine::Durability::Memory);
        let group = on_disk.and_then(|found| found.group(partition));
        !group.is_some_and(|group| group.members().any(|member| member == instance))
    });
    let foreign: Vec<_> = foreign.collect();
    for id in &foreign {
        drop_stored(engine, *id)?;
    }
    Ok(foreign.len())
}
