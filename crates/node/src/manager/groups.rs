//! How replica groups stand, as the map has them: for the status, and partition by partition.

use std::collections::BTreeMap;

use zerohop_placement::{ClusterMap, Group, GroupState, NodeState};
use zerohop_wire::admin::{
    AdminAnswer, Answer, GroupsStatus, PARTITIONS_LISTED_MAX, PartitionList, PartitionStatus, Partitions,
    REFUSED_UNKNOWN,
};
use zerohop_wire::ids::{InstanceId, NodeId};

/// What a node is in groups: primary, in sync, following.
pub(super) type Shares = [u32; 3];

/// Counts groups, and what each node is in them.
pub(super) fn count(map: &ClusterMap) -> (GroupsStatus, BTreeMap<NodeId, Shares>) {
    let mut status = GroupsStatus::default();
    let mut shares: BTreeMap<NodeId, Shares> = BTreeMap::new();
    let owner: BTreeMap<InstanceId, (NodeId, NodeState)> = map
        .nodes()
        .flat_map(|node| node.instances().map(move |instance| (instance.id, (node.id(), node.state()))))
        .collect();
    let mut add = |instance: InstanceId, share: usize| {
        if let Some((node, _)) = owner.get(&instance) {
            shares.entry(*node).or_default()[share] += 1;
        }
    };
    for (_, keyspace) in map.keyspaces() {
        let config = keyspace.config();
        for (_, group) in keyspace.groups() {
            add(group.primary, 0);
            group.in_sync.iter().for_each(|instance| add(*instance, 1));
            group.followers.iter().for_each(|instance| add(*instance, 2));
            let is_down = owner.get(&group.primary).is_none_or(|(_, state)| *state == NodeState::Down);
            let copies = group.members().count();
            status.groups += 1;
            status.short += u32::from(1 + group.in_sync.len() < usize::from(config.min_in_sync));
            status.rebuilding += u32::from(copies != usize::from(config.replicas));
            status.moving += u32::from(group.state == GroupState::Admitting);
            status.recovering += u32::from(group.state == GroupState::Recovering);
            status.down += u32::from(is_down);
        }
    }
    (status, shares)
}

/// A page of a keyspace's partitions.
pub(super) fn list(map: &ClusterMap, asked: &PartitionList) -> AdminAnswer {
    let Some((_, keyspace)) = map.keyspace_named(&asked.keyspace) else {
        return AdminAnswer::refused(REFUSED_UNKNOWN, format!("there is no keyspace {:?}", asked.keyspace));
    };
    let page = keyspace.groups().skip(asked.first as usize).take(PARTITIONS_LISTED_MAX);
    let partitions = page.map(|(partition, group)| status_of(partition.0, group)).collect();
    AdminAnswer::of(Answer::Partitions(Partitions { partitions, count: keyspace.config().partitions.get() }))
}

fn status_of(partition: u32, group: Group<'_>) -> PartitionStatus {
    let state = match group.state {
        GroupState::Settled => "settled",
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
    }
}
