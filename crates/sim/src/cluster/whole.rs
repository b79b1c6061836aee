//! After all faults: every group is whole, and its members hold the same (I6).

use zerohop_partition::replica::Role;
use zerohop_placement::GroupState;
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionId};

use super::{Cluster, Event, Phase};
use crate::limits::{CLUSTER_HEALING_US, CLUSTER_WHOLE_US};

const EVERY_US: u64 = 500_000;

impl Cluster {
    /// Whether all is well by now; looked at again and again until it should be.
    pub(super) fn look(&mut self) {
        if self.phase != Phase::Whole {
            return;
        }
        let now = self.now();
        let groups: Vec<(KeyspaceId, PartitionId)> = self
            .watch
            .map
            .keyspaces()
            .flat_map(|(id, keyspace)| keyspace.groups().map(move |(partition, _)| (id, partition)))
            .collect();
        let missing = groups.iter().find_map(|(id, partition)| self.is_not_whole(*id, *partition));
        let due = self.history.healed.unwrap_or(now).after_us(CLUSTER_HEALING_US + CLUSTER_WHOLE_US);
        match missing {
            None => {}
            Some(_) if now < due => return self.agenda.at(now.after_us(EVERY_US), Event::Look),
            Some(why) => self.trouble("whole", why),
        }
        self.phase = Phase::Over;
    }

    /// Why a group is not whole, and its members not alike.
    fn is_not_whole(&mut self, keyspace: KeyspaceId, partition: PartitionId) -> Option<String> {
        let name = format!("{keyspace}/{partition}");
        let map = std::sync::Arc::clone(&self.watch.map);
        let found = map.keyspace(keyspace)?;
        let group = found.group(partition)?;
        let config = found.config();
        let wanted = usize::from(config.replicas).min(self.nodes_up());
        let members: Vec<InstanceId> = group.members().collect();
        if group.state != GroupState::Settled || members.len() != wanted {
            return Some(format!("{name} has {} of {wanted} members: {group:?}", members.len()));
        }
        if group.in_sync.len() + 1 < usize::from(config.min_in_sync).min(wanted) {
            return Some(format!("{name} has too few in sync: {group:?}"));
        }
        if members.len() == 1 {
            return None;
        }
        let mut digests = Vec::new();
        for member in members {
            let Some((host, slot)) = self.host_of(member) else {
                return Some(format!("{member} is nowhere"));
            };
            let Some(instance) = &mut self.hosts[host].slots[slot].instance else {
                return Some(format!("{name}: {member} does not run"));
            };
            let replica = instance.replicas().find(|one| (one.0, one.1) == (keyspace, partition));
            let Some((_, _, replica)) = replica else { return Some(format!("{name} is not on {member}")) };
            if replica.role() == Role::Removed || replica.view().epoch != group.epoch {
                let view = replica.view();
                return Some(format!("{name}: {member} is {:?} in {view:?}, not {group:?}", replica.role()));
            }
            match instance.digest(keyspace, partition) {
                Ok(Some(digest)) => digests.push((member, digest)),
                other => return Some(format!("{name}: no digest of {member}: {other:?}")),
            }
        }
        let first = digests[0].1;
        if digests.iter().any(|(_, digest)| digest.index != first.index) {
            return Some(format!("{name}: members have applied different entries: {digests:?}"));
        }
        if digests.iter().any(|(_, digest)| *digest != first) {
            self.trouble("I6", format!("members of {name} hold different things: {digests:?}"));
        }
        None
    }
}
