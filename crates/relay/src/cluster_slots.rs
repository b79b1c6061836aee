//! The map as clients of Redis Cluster see it: slots, and the instances that serve them.

use std::collections::BTreeMap;

use zerohop_placement::hash::SLOTS;
use zerohop_placement::{ClusterMap, GroupService, HashKind, Keyspace, NodeState, Reachability};
use zerohop_resp::{Layout, MemberState, RedisMember, SlotService, Slots};
use zerohop_wire::ids::{InstanceId, PartitionId};
use zerohop_wire::messages::ClusterId;

/// Host and port of an address.
pub(super) fn split(address: &str) -> (String, u16) {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    (host.trim_start_matches('[').trim_end_matches(']').to_owned(), port.parse().unwrap_or(0))
}

/// Whether a keyspace places keys by slots, each of them in one partition.
pub(super) fn has_slots(keyspace: &Keyspace) -> bool {
    let config = keyspace.config();
    config.hash == HashKind::Crc16 && config.partitions.get() <= u32::from(SLOTS)
}

/// The first and last slot of a partition.
fn slots_of(partition: PartitionId, partitions: u32) -> (u16, u16) {
    let width = u32::from(SLOTS) / partitions.max(1);
    ((partition.0 * width) as u16, ((partition.0 + 1) * width - 1) as u16)
}

/// The partition of a slot.
pub(super) fn partition_of_slot(slot: u16, partitions: u32) -> PartitionId {
    PartitionId(u32::from(slot) * partitions / u32::from(SLOTS))
}

/// All instances, and which of them have the slots of a keyspace. In a keyspace without slots, the
/// instance that is asked has all of them.
pub(super) fn layout(
    (map, reachability): (&ClusterMap, &Reachability),
    keyspace: Option<&Keyspace>,
    cluster: ClusterId,
    me: InstanceId,
) -> Layout {
    let (mut members, mut places) = (Vec::new(), BTreeMap::new());
    for node in map.nodes() {
        for instance in node.instances() {
            let (host, port) = split(instance.addr);
            let id = cluster.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let id = format!("{id}{:08x}", instance.id.0);
            places.insert(instance.id, members.len());
            let state = match node.state() {
                NodeState::Down => MemberState::Down,
                _ if reachability.silent.contains(&node.id()) => MemberState::Silent,
                _ => MemberState::Up,
            };
            members.push(RedisMember { id, host, port, is_self: instance.id == me, state });
        }
    }
    let mut slots: Vec<Slots> = Vec::new();
    match keyspace.filter(|keyspace| has_slots(keyspace)) {
        Some(keyspace) => {
            let partitions = keyspace.config().partitions.get();
            for (partition, group) in keyspace.groups() {
                let (first, last) = slots_of(partition, partitions);
                let Some(&primary) = places.get(&group.primary) else { continue };
                let copies = group.in_sync.iter().chain(group.followers);
                let mut replicas: Vec<usize> = copies.filter_map(|copy| places.get(copy).copied()).collect();
                replicas.sort_unstable();
                match slots.last_mut() {
                    Some(before) if before.primary == primary && before.replicas == replicas => {
                        before.last = last
                    }
                    _ => slots.push(Slots { first, last, primary, replicas }),
                }
            }
        }
        None => {
            let own = places.get(&me).copied();
            slots.extend(own.map(|primary| Slots {
                first: 0,
                last: SLOTS - 1,
                primary,
                replicas: Vec::new(),
            }));
        }
    }
    let service = keyspace.map_or_else(SlotService::default, |found| service(map, reachability, found));
    Layout { members, slots, service }
}

/// How the slots of a keyspace are served. In a keyspace without slots its partitions share them equally.
fn service(map: &ClusterMap, reachability: &Reachability, keyspace: &Keyspace) -> SlotService {
    let count = |is_wanted: &dyn Fn(GroupService) -> bool| {
        let wanted = keyspace.groups().filter(|(_, group)| is_wanted(reachability.service(map, group)));
        let share = wanted.count() as u64 * u64::from(SLOTS);
        share.div_ceil(u64::from(keyspace.config().partitions.get())) as u32
    };
    let failed = count(&|service| service == GroupService::NoPrimary);
    let suspected = count(&|service| matches!(service, GroupService::PrimarySilent | GroupService::Stuck));
    SlotService {
        failed,
        suspected: suspected.min(u32::from(SLOTS) - failed),
        is_complete: reachability.has_quorum && count(&GroupService::lacks_primary) == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_ranges_and_partitions_map_to_each_other() {
        for partitions in [1, 2, 256, 16_384] {
            for partition in (0..partitions).map(PartitionId) {
                let (first, last) = slots_of(partition, partitions);
                assert_eq!(partition_of_slot(first, partitions), partition);
                assert_eq!(partition_of_slot(last, partitions), partition);
            }
            assert_eq!(slots_of(PartitionId(partitions - 1), partitions).1, SLOTS - 1);
        }
    }

    #[test]
    fn addresses_fall_into_host_and_port() {
        assert_eq!(split("127.0.0.1:7401"), ("127.0.0.1".to_owned(), 7401));
        assert_eq!(split("[::1]:7401"), ("::1".to_owned(), 7401));
    }
}
