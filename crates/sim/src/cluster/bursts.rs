//! Bursts: within a second or two, several short faults strike the members of one partition, most
//! often the primary. They produce a second promotion soon after the first, a crash during
//! recovery, or a pause that spans two changes.

use zerohop_base::time::Time;
use zerohop_wire::ids::{KeyspaceId, PartitionId};

use super::faults::ClusterFault;
use super::traffic::Traffic;
use super::{ClusterEvent, SimulatedCluster};
use crate::kinds::FaultKind;
use crate::streams::Draw;

const MS: u64 = 1_000;

/// The kinds of fault in a burst, as far as the run has them.
const BLOWS: [FaultKind; 6] = [
    FaultKind::Kills,
    FaultKind::PowerLosses,
    FaultKind::NodePauses,
    FaultKind::AgentPauses,
    FaultKind::Cuts,
    FaultKind::Stalls,
];

impl SimulatedCluster {
    pub(super) fn begin_burst(&mut self) {
        let now = self.now();
        let places: Vec<(KeyspaceId, PartitionId)> = self
            .watch
            .map
            .keyspaces()
            .flat_map(|(id, keyspace)| keyspace.groups().map(move |(partition, _)| (id, partition)))
            .collect();
        if places.is_empty() {
            return;
        }
        self.coverage.fault(FaultKind::Bursts);
        let (keyspace, partition) = *self.streams.node.pick(&places);
        let (count, length_us) =
            (self.streams.node.between(2, 5), *self.streams.node.pick(&[200 * MS, 800 * MS, 2_500 * MS]));
        self.trace.record(now, format_args!("BURST of {count} around {keyspace}/{partition}"));
        self.focus = Some((keyspace, now.after_us(length_us + 2_000 * MS)));
        for _ in 0..count {
            let at = now.after_us(self.streams.node.below(length_us));
            self.event_queue
                .at(at, ClusterEvent::Fault(ClusterFault::StrikePartition { keyspace, partition }));
        }
    }

    pub(super) fn strike_partition(&mut self, keyspace: KeyspaceId, partition: PartitionId) {
        let map = std::sync::Arc::clone(&self.watch.map);
        let Some(group) = map.keyspace(keyspace).and_then(|known| known.group(partition)) else { return };
        let members: Vec<_> = group.members().collect();
        let member = match self.streams.node.chance(1, 2) {
            true => group.primary,
            false => *self.streams.node.pick(&members),
        };
        let Some((host, _)) = self.host_of(member).filter(|(at, _)| self.hosts[*at].is_up) else { return };
        let kinds: Vec<FaultKind> = BLOWS.into_iter().filter(|kind| self.scenario.has(*kind)).collect();
        if kinds.is_empty() {
            return;
        }
        let now = self.now();
        let longest = *self.streams.node.pick(&[20 * MS, 200 * MS, 900 * MS]);
        let for_us = self.streams.node.between(MS, longest);
        let until: Time = now.after_us(for_us);
        match *self.streams.node.pick(&kinds) {
            FaultKind::Kills | FaultKind::PowerLosses => self.crash_and_restart(host, for_us),
            FaultKind::NodePauses => {
                self.trace.record(now, format_args!("PAUSE of n{host} until {}", until.0));
                self.hosts[host].paused_until = self.hosts[host].paused_until.max(until);
                self.watch.paused(host, now, until);
            }
            FaultKind::AgentPauses => {
                // Long enough for the failure detector to declare the node dead.
                let until = until.after_us(1_500 * MS);
                self.trace.record(now, format_args!("PAUSE of the agent of n{host} until {}", until.0));
                self.hosts[host].agent_paused_until = self.hosts[host].agent_paused_until.max(until);
            }
            FaultKind::Cuts => {
                self.trace.record(now, format_args!("CUT of n{host} until {}", until.0));
                for other in (0..self.hosts.len()).filter(|other| *other != host) {
                    self.cut_between(host, other, until);
                    self.cut_between(other, host, until);
                }
            }
            _ => self.begin_stall(host, None, Some(Traffic::Instances), until.after_us(300 * MS)),
        }
    }
}
