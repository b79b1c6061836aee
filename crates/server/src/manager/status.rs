//! The status of the node: one value, for control requests and as JSON.

use std::num::{NonZeroU32, NonZeroU64};

use serde_json::{Value, json};
use zerohop_disk::{FileShortage, FileSizeLimit};
use zerohop_engine::limits::{DISK_FULL_END_BYTES, DISK_RESERVE_BYTES};
use zerohop_placement::{ClusterMap, KeyOrder};
use zerohop_replication::CopyDamage;
use zerohop_shard::KeyspaceFigures;
use zerohop_system::descriptors::Descriptors;
use zerohop_system::refused_connections;
use zerohop_wire::admin::{
    DamagedPartition, DescriptorStatus, GroupsStatus, InstanceStatus, KeyspaceStatus, NodeStatus, Status,
};
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionId};
use zerohop_wire::plurals::{by_number, counted};

use super::changes;
use super::clustered;
use super::groups;
use super::instances::{self, InstanceFigures};
use super::json_key::json_key;
use super::shared::ManagerShared;
use super::view::ClusterView;
use crate::limits::STATUS_SEPARATOR_BYTES_MAX;
use crate::process::disk_bytes;

/// With more free bytes, a refused write is no sign of a full disk if the limit of file sizes has refused any.
const AMPLE_BYTES: u64 = 1 << 30;

/// A disk that was full counts as full until so much is free.
const DISK_ROOM_BYTES: u64 = DISK_RESERVE_BYTES + DISK_RESERVE_BYTES / 8 + DISK_FULL_END_BYTES;

/// Requests the figures of every instance, with a time limit, and combines the answers.
pub(super) async fn collect_status(shared: &ManagerShared) -> Status {
    let map = shared.history.borrow().map().clone();
    let figures = instances::figures(shared.instances()).await;
    let mut view = ClusterView::of(shared).await;
    view.add_own_partitions(&figures);
    let mut view = view.node_view;
    view.warnings
        .extend(split_warning(figures.iter().flatten().map(|one| one.stats.splits_pending.parents).sum()));
    let (mut troubles, mut damaged) = (of_node(shared), Vec::new());
    for (instance, found) in shared.instances().iter().zip(&figures) {
        match found {
            Some(figures) => {
                let reported =
                    figures.stats.errors.iter().map(|trouble| format!("instance {}: {trouble}", instance.id));
                troubles.extend(reported);
                let set_ms = figures.stats.clock_distrusted_ms;
                if set_ms > 0 {
                    troubles.push(format!(
                        "instance {}: the clock of this machine was set {set_ms} ms ahead, and no other node's clock agrees: the node \
                         counts the elapsed time instead; set the clock right",
                        instance.id
                    ));
                }
                damaged.extend(damaged_of(&map, instance.id, &figures.stats.damage_text));
                troubles.extend(damaged_of(&map, instance.id, &figures.stats.loss_accepted).map(|one| {
                    format!(
                        "instance {}: {}/{} continues without its damaged part, by `zerohop recover`: {}",
                        instance.id,
                        one.keyspace,
                        one.partition,
                        lacking(&one)
                    )
                }));
                if figures.stats.is_full
                    && !(FileSizeLimit::that_refused().is_some() && figures.stats.free_bytes > AMPLE_BYTES)
                {
                    troubles.push(format!(
                        "instance {}: {}",
                        instance.id,
                        full_disk(figures.stats.free_bytes)
                    ));
                }
            }
            None => troubles.push(format!("instance {} does not report its state", instance.id)),
        }
    }
    troubles.extend(damaged.iter().map(|one| {
        format!(
            "instance {}: {}/{} is damaged: its only in-sync copy is corrupt, and the partition is not served ({}); \
             `zerohop recover {}/{}` lists the copies to continue with",
            one.instance,
            one.keyspace,
            one.partition,
            lacking(one),
            one.keyspace,
            one.partition
        )
    }));
    let of_one = |place: usize, id: u32, addr: &str| {
        let empty = InstanceStatus { id, addr: addr.to_owned(), ..InstanceStatus::default() };
        let Some(figures) = figures.get(place).and_then(Option::as_ref) else { return empty };
        let stats = &figures.stats;
        InstanceStatus {
            partitions: u32::try_from(stats.partitions).unwrap_or(u32::MAX),
            entries: stats.records + stats.versions,
            log_bytes: stats.log_bytes,
            resident_bytes: stats.engine.resident_bytes,
            connections: u32::try_from(figures.connections).unwrap_or(u32::MAX),
            ..empty
        }
    };
    let own = instances::by_keyspace(figures.iter().flatten().map(|one| &one.stats));
    let disk = shared.about.data.as_deref().and_then(disk_bytes);
    let (disk_free_bytes, disk_total_bytes) = disk.unwrap_or_default();
    let managers = clustered::managers(shared).await;
    let groups::GroupCounts { all, keyspaces, shares } = groups::count(&map);
    let nodes = map.nodes().map(|node| {
        let instances = node.instances().enumerate();
        let node_status = NodeStatus {
            id: node.id().0,
            state: match view.silent.contains(&node.id().0) {
                true => "silent".to_owned(),
                false => node.state().to_string(),
            },
            manager: node.manager().to_owned(),
            in_control: managers.iter().any(|one| one == node.manager()),
            primaries: shares.get(&node.id()).map_or(0, |shares| shares[0]),
            in_sync: shares.get(&node.id()).map_or(0, |shares| shares[1]),
            following: shares.get(&node.id()).map_or(0, |shares| shares[2]),
            instances: node
                .instances()
                .map(|one| InstanceStatus {
                    id: one.id.0,
                    addr: one.addr.to_owned(),
                    ..InstanceStatus::default()
                })
                .collect(),
            ..NodeStatus::default()
        };
        if node.id() != shared.node.get() {
            return node_status;
        }
        NodeStatus {
            pid: std::process::id(),
            instances: instances.map(|(place, one)| of_one(place, one.id.0, one.addr)).collect(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_ms: shared.about.started_ms,
            troubles: troubles.clone(),
            damaged: damaged.clone(),
            disk_free_bytes,
            disk_total_bytes,
            ..node_status
        }
    });
    let mut separator_bytes = 0;
    Status {
        map_epoch: map.epoch().0,
        cluster: shared.cluster.get().0.to_vec(),
        nodes: nodes.collect(),
        groups: Some(all),
        view: Some(view),
        descriptors: vec![descriptors(shared, &figures)],
        keyspaces: map
            .keyspaces()
            .map(|(id, keyspace)| {
                let groups = keyspaces.get(&id).copied().unwrap_or_default();
                let GroupsStatus { below_min_in_sync, rebuilding, lost, .. } = groups;
                let dropping = keyspace.is_dropping();
                let KeyspaceFigures { records, log_bytes, .. } = own.get(&id).copied().unwrap_or_default();
                let mut shown = changes::status(id, keyspace.config());
                separator_bytes += shown.separators.iter().map(Vec::len).sum::<usize>();
                if separator_bytes > STATUS_SEPARATOR_BYTES_MAX {
                    shown.separators.clear();
                }
                KeyspaceStatus { below_min_in_sync, rebuilding, lost, dropping, records, log_bytes, ..shown }
            })
            .collect(),
    }
}

/// The descriptors and connections of this node.
fn descriptors(shared: &ManagerShared, figures: &[InstanceFigures]) -> DescriptorStatus {
    let descriptors = Descriptors::of_process();
    let of_instances: usize = figures.iter().flatten().map(|figures| figures.connections).sum();
    DescriptorStatus {
        node: shared.node.get().0,
        limit: descriptors.limit().unwrap_or(0),
        connections_max: descriptors.limit().map_or(0, |_| descriptors.connections_max()),
        connections: (of_instances + shared.door.borrow().open()) as u64,
        refused: refused_connections::in_last_minute(),
    }
}

/// The warning about partitions of this node that wait for their split, by their number.
fn split_warning(pending: u64) -> Option<String> {
    let copies = counted(pending, "copy");
    (pending > 0).then(|| {
        format!(
            "a split is in progress: {copies} of partitions on this node {} not split yet, and these partitions are not served until then",
            by_number(pending, "is", "are")
        )
    })
}

/// The trouble of an instance with a full disk, of which so many bytes are free.
fn full_disk(free_bytes: u64) -> String {
    let left = match free_bytes >> 20 {
        0 => "nothing is left".to_owned(),
        free => format!("{free} MiB are left, its reserve"),
    };
    if let Some(shortage) = FileShortage::now().filter(|_| free_bytes > DISK_RESERVE_BYTES) {
        return format!("it accepts no new writes, and other nodes accept them where they can: {shortage}");
    }
    if free_bytes > DISK_RESERVE_BYTES {
        return format!(
            "its disk was full and is nearly full ({} MiB are left): it has other nodes accept new writes where they can, and counts as \
             full until {} MiB are left",
            free_bytes >> 20,
            DISK_ROOM_BYTES >> 20
        );
    }
    format!(
        "its disk is full ({left}): it accepts no new writes, and other nodes accept them where they can; make room, and it accepts \
         writes again"
    )
}

/// Troubles of the node, without those of its instances and those of its view of the cluster.
pub(super) fn of_node(shared: &ManagerShared) -> Vec<String> {
    let mut troubles = shared.troubles();
    troubles.extend(shared.losses.borrow().lines(shared.history.borrow().map()));
    troubles.extend(shared.unserved_reason());
    troubles.extend(
        FileSizeLimit::in_effect().filter(|_| !shared.about.in_memory).map(|limit| limit.to_string()),
    );
    if shared.store_waits.get() {
        troubles.push(
            match FileSizeLimit::that_refused() {
                Some(_) => "the node's log of the control group cannot be written: its part of the control group waits until it can be",
                None => "the disk of the node's folder is full to the last byte: its part of the control group waits until there is room",
            }
            .to_owned(),
        );
    }
    troubles
}

/// An instance's report of corrupt copies, with the names of their keyspaces.
fn damaged_of(
    map: &ClusterMap,
    instance: InstanceId,
    reported: &[(KeyspaceId, PartitionId, CopyDamage)],
) -> impl Iterator<Item = DamagedPartition> {
    reported.iter().map(move |(keyspace, partition, damaged)| DamagedPartition {
        // A keyspace that was dropped meanwhile is shown by its id.
        keyspace: map
            .keyspace(*keyspace)
            .map_or_else(|| keyspace.to_string(), |found| found.config().name.as_str().to_owned()),
        partition: partition.0,
        instance: instance.0,
        found: damaged.found,
        named: damaged.named.clone(),
    })
}

/// A description of what a copy lacks.
fn lacking(one: &DamagedPartition) -> String {
    let DamagedPartition { found, named, .. } = one;
    match (found, &named[..]) {
        (_, []) => "its log ends too early, or has a gap".to_owned(),
        (1, [only]) => only.clone(),
        (found, some) if *found as usize == some.len() => some.join("; "),
        (found, some) => format!("{}: {}; …", counted(*found, "place"), some.join("; ")),
    }
}

/// The status as JSON, with the field names of `admin.proto`.
pub(super) fn to_json(status: &Status) -> Value {
    let instance = |one: &InstanceStatus| {
        json!({
            "id": one.id, "addr": one.addr, "partitions": one.partitions, "entries": one.entries,
            "log_bytes": one.log_bytes, "resident_bytes": one.resident_bytes, "connections": one.connections,
        })
    };
    let damaged = |one: &DamagedPartition| {
        json!({
            "keyspace": one.keyspace, "partition": one.partition, "instance": one.instance, "found": one.found,
            "named": one.named,
        })
    };
    let descriptors = |node: &NodeStatus| {
        let found = status.descriptors.iter().find(|one| one.node == node.id);
        found.map(|one| {
            json!({
                "limit": NonZeroU64::new(one.limit), "connections_max": NonZeroU64::new(one.connections_max),
                "connections": one.connections, "refused": one.refused,
            })
        })
    };
    let node = |node: &NodeStatus| {
        json!({
            "id": node.id, "state": node.state, "pid": NonZeroU32::new(node.pid), "manager": node.manager,
            "instances": node.instances.iter().map(instance).collect::<Vec<_>>(),
            "version": node.version, "started_ms": node.started_ms, "troubles": node.troubles,
            "primaries": node.primaries, "in_sync": node.in_sync, "following": node.following,
            "in_control": node.in_control, "disk_free_bytes": node.disk_free_bytes,
            "disk_total_bytes": node.disk_total_bytes, "damaged": node.damaged.iter().map(damaged).collect::<Vec<_>>(),
            "descriptors": descriptors(node),
        })
    };
    let keyspace = |one: &zerohop_wire::admin::KeyspaceStatus| {
        // In messages one field has both: an ordered keyspace has no hash function that places its keys.
        let is_ordered = one.hash == KeyOrder::ORDERED;
        let history = one.history.unwrap_or_default();
        let (order, hash) =
            if is_ordered { (KeyOrder::ORDERED, None) } else { (KeyOrder::HASHED, Some(&one.hash)) };
        let is_named = is_ordered && one.separators.len() as u32 + 1 == one.partitions;
        let separators = is_named.then(|| one.separators.iter().map(|key| json_key(key)).collect::<Vec<_>>());
        json!({
            "id": one.id, "name": one.name, "partitions": one.partitions, "order": order, "hash": hash,
            "separators": separators,
            "replicas": one.replicas, "min_in_sync": one.min_in_sync, "durability": one.durability,
            "chunk_bytes": one.chunk_bytes, "history_ms": history.ms, "history_bytes": history.bytes,
            "dropping": one.dropping, "records": one.records,
            "log_bytes": one.log_bytes,
            "health": { "below_min_in_sync": one.below_min_in_sync, "rebuilding": one.rebuilding, "lost": one.lost },
        })
    };
    let cluster: String = status.cluster.iter().map(|byte| format!("{byte:02x}")).collect();
    let groups = status.groups.unwrap_or_default();
    let groups = json!({
        "total": groups.groups, "below_min_in_sync": groups.below_min_in_sync, "rebuilding": groups.rebuilding, "moving": groups.moving,
        "recovering": groups.recovering, "down": groups.down,
        "lost": groups.lost,
    });
    let view = status.view.clone().unwrap_or_default();
    let warnings = view.warnings;
    let view = json!({
        "node": view.node, "leader": view.leader, "age_ms": view.age_ms, "quorum": view.quorum,
        "managers": view.managers, "answering": view.answering, "silent": view.silent,
        "no_primary": view.no_primary, "stuck": view.stuck, "log_failed": view.log_failed,
        "not_split": view.not_split,
        "waits_for": view.waits_for,
    });
    json!({
        "view": view, "warnings": warnings, "groups": groups, "map_epoch": status.map_epoch, "cluster": cluster,
        "nodes": status.nodes.iter().map(node).collect::<Vec<_>>(),
        "keyspaces": status.keyspaces.iter().map(keyspace).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_in_progress_is_a_warning_with_the_number_of_waiting_copies() {
        assert_eq!(split_warning(0), None);
        let warning = split_warning(1).unwrap();
        assert!(
            warning.starts_with("a split is in progress: 1 copy ") && warning.contains("is not split yet"),
            "{warning}"
        );
        assert!(
            split_warning(37).unwrap().contains("37 copies of partitions on this node are not split yet")
        );
    }
}
