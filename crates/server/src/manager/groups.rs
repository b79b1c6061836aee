//! Replica groups according to the map: in numbers for the status, and partition by partition.

use std::collections::BTreeMap;

use zerohop_placement::{ClusterMap, Group, GroupState};
use zerohop_wire::admin::{
    AdminAnswer, AdminReply, GroupsStatus, PARTITIONS_LISTED_MAX, PartitionList, PartitionStatus, Partitions,
    REFUSED_UNKNOWN,
};
use zerohop_wire::escaped::quoted;
use zerohop_wire::ids::{InstanceId, KeyspaceId, NodeId, PartitionId};

/// The numbers of groups of which a node has the primary, an in-sync replica, a follower.
pub(super) type GroupShares = [u32; 3];

/// The counts over all groups, for each keyspace, and for each node.
pub(super) struct GroupCounts {
    pub(super) all: GroupsStatus,
    pub(super) keyspaces: BTreeMap<KeyspaceId, GroupsStatus>,
    pub(super) shares: BTreeMap<NodeId, GroupShares>,
}

/// Counts groups.
pub(super) fn count(map: &ClusterMap) -> GroupCounts {
    let mut counts =
        GroupCounts { all: GroupsStatus::default(), keyspaces: BTreeMap::new(), shares: BTreeMap::new() };
    let owner: BTreeMap<InstanceId, NodeId> =
        map.nodes().flat_map(|node| node.instances().map(move |instance| (instance.id, node.id()))).collect();
    let shares = &mut counts.shares;
    let mut add = |instance: InstanceId, share: usize| {
        if let Some(node) = owner.get(&instance) {
            shares.entry(*node).or_default()[share] += 1;
        }
    };
    for (id, keyspace) in map.keyspaces() {
        let config = keyspace.config();
        let mut status = GroupsStatus::default();
        for (_, group) in keyspace.groups() {
            add(group.primary, 0);
            group.in_sync.iter().for_each(|instance| add(*instance, 1));
            group.followers.iter().for_each(|instance| add(*instance, 2));
            let copies = group.members().count();
            status.groups += 1;
            status.below_min_in_sync += u32::from(1 + group.in_sync.len() < usize::from(config.min_in_sync));
            status.rebuilding += u32::from(copies != usize::from(config.replicas));
            status.moving += u32::from(group.state == GroupState::Admitting);
            status.recovering += u32::from(group.state == GroupState::Recovering);
            status.down += u32::from(map.is_down(group.primary));
            status.lost += u32::from(map.is_unavailable(group));
        }
        let all = &mut counts.all;
        all.groups += status.groups;
        all.below_min_in_sync += status.below_min_in_sync;
        all.rebuilding += status.rebuilding;
        all.moving += status.moving;
        all.recovering += status.recovering;
        all.down += status.down;
        all.lost += status.lost;
        counts.keyspaces.insert(id, status);
    }
    counts
}

/// A page of a keyspace's partitions. `pins` has the pinned ones, if this node knows them.
pub(super) fn list(
    map: &ClusterMap,
    request: &PartitionList,
    pins: Option<&BTreeMap<PartitionId, InstanceId>>,
) -> AdminAnswer {
    let Some((_, keyspace)) = map.keyspace_named(&request.keyspace) else {
        let reason = format!("there is no keyspace {}", quoted(request.keyspace.as_bytes()));
        return AdminAnswer::refused(REFUSED_UNKNOWN, reason);
    };
    let page = keyspace.groups().skip(request.first as usize).take(PARTITIONS_LISTED_MAX);
    let pinned = |partition| pins.and_then(|pins| pins.get(&partition)).map(|one| one.0);
    let partitions = page
        .map(|(partition, group)| PartitionStatus {
            pinned: pinned(partition),
            ..status_of(map, partition.0, group)
        })
        .collect();
    let (count, pins_known) = (keyspace.config().partitions.get(), pins.is_some());
    AdminAnswer::of(AdminReply::Partitions(Partitions { partitions, count, pins_known }))
}

fn status_of(map: &ClusterMap, partition: u32, group: Group<'_>) -> PartitionStatus {
    let state = match group.state {
        GroupState::Stable => "settled",
        GroupState::Admitting => "admitting",
        GroupState::Recovering => "recovering",
    };
    PartitionStatus {
        partition,
        epoch: group.epoch.0,
        primary: group.primary.0,
        in_sync: group.in_sync.iter().map(|one| one.0).collect(),
        followers: group.followers.iter().map(|one| one.0).collect(),
        state: state.to_owned(),
        lost: map.is_unavailable(group),
        down: group.members().filter(|one| map.is_down(*one)).map(|one| one.0).collect(),
        pinned: None,
    }
}
