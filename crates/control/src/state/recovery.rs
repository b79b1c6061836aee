//! Groups in which all in-sync replicas have restarted, or are gone.
//!
//! No instance serves such a partition until recovery has chosen a log. Members report the logs that they
//! have ([`crate::command::ControlCommand::ReportLogs`]); a log does not change while its group recovers, so a
//! report stays true.
//!
//! | found | the group continues with |
//! | --- | --- |
//! | an in-sync replica that is up and has not restarted, or has restarted with all its data (intact logs under `sync`, or under `interval` after a clean shutdown) | that replica: it has everything |
//! | `sync` durability, an in-sync replica with an intact log | that replica: everything acknowledged was on its disk |
//! | all in-sync replicas, and all other members that are up, have reported | the log with the highest end; entries that were not flushed may be missing |
//! | the operator's `recover`, and all members that are up have reported | the log with the highest end, possibly a follower's |
//! | the operator's `recover` of a damaged copy, and its instance has reported | the readable part of that copy |
//! | the operator's `recover`, and no member is up | nothing: the partition starts empty, on another instance |

use std::collections::BTreeSet;

use zerohop_placement::{GroupState, MapChange, ReplicaGroup};
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionId};

use super::group_decision::{GroupContext, NextGroup};
use super::{ControlState, MapDraft, Ring, RingPoint};
use crate::command::{CommandRefusal, LogIndexReport, RecoverySource};

impl ControlState {
    /// Members of recovering groups report their logs. A report that does not fit the present state of a
    /// group is ignored: it must not keep the other reports of the command from being applied.
    pub(super) fn handle_log_reports(
        &mut self,
        reported: &LogIndexReport,
        draft: &mut MapDraft,
    ) -> Result<u64, CommandRefusal> {
        let node = self.map().node(reported.node).ok_or(CommandRefusal::UnknownNode)?;
        if node.incarnation() != reported.incarnation {
            return Err(CommandRefusal::StaleIncarnation);
        }
        let own: BTreeSet<InstanceId> = node.instances().map(|instance| instance.id).collect();
        let mut used = BTreeSet::new();
        for log in reported.logs.iter().filter(|log| own.contains(&log.instance)) {
            let place = (log.keyspace, log.partition);
            let group = self.map().keyspace(log.keyspace).and_then(|keyspace| keyspace.group(log.partition));
            let answers = group.is_some_and(|group| {
                group.state == GroupState::Recovering
                    && group.epoch == log.epoch
                    && group.members().any(|member| member == log.instance)
            });
            if !answers {
                continue;
            }
            self.recoveries.entry(place).or_default().reports.insert(log.instance, (log.end, log.intact));
            used.insert(place);
        }
        for (keyspace, partition) in &used {
            self.end_if_possible(*keyspace, *partition, draft);
        }
        Ok(used.len() as u64)
    }

    /// The operator gives up the members that are not up, or the damaged part of the only copy.
    pub(super) fn recover(
        &mut self,
        (keyspace, partition): (KeyspaceId, PartitionId),
        damaged: Option<RecoverySource>,
        draft: &mut MapDraft,
    ) -> Result<u64, CommandRefusal> {
        let found = self.map().keyspace(keyspace).ok_or(CommandRefusal::UnknownKeyspace)?;
        let group = found.group(partition).ok_or(CommandRefusal::UnknownPartition)?;
        let view = GroupContext { config: found.config(), state_of: &|instance| self.state_of(instance) };
        let serves = group.state != GroupState::Recovering
            && std::iter::once(group.primary)
                .chain(group.in_sync.iter().copied())
                .any(|instance| !view.is_down(instance));
        // The only in-sync copy, whose instance reports that it cannot serve.
        let is_alone = serves && group.in_sync.is_empty();
        if serves && !(is_alone && damaged.is_some()) {
            return Err(CommandRefusal::NothingToRecover);
        }
        if group.members().all(|instance| view.is_down(instance)) {
            // No member is left to report. The previous members are removed from the group: if one returns,
            // its copy is removed, as the new group may have written other data by then.
            let replicas = |one: &RingPoint| self.map().partitions_of(one.instance).count();
            let ring = Ring::new(self, found.config().seed);
            let heir =
                ring.points().iter().min_by_key(|point| replicas(point)).ok_or(CommandRefusal::NoNodes)?;
            let next = ReplicaGroup::of_one(group.epoch.next(), heir.instance);
            let epoch = next.epoch;
            draft.possible_losses.push((keyspace, partition));
            draft.changes.push(MapChange::SetGroup { keyspace, partition, group: next });
            return Ok(epoch.get());
        }
        let mut recovery = self.recoveries.get(&(keyspace, partition)).cloned().unwrap_or_default();
        recovery.accept_loss = true;
        recovery.continues_with_primary |= damaged == Some(RecoverySource::Damaged);
        if is_alone {
            // Its log counts only as far as it is reported.
            recovery.restarted.insert(group.primary);
        }
        let mut next = group.to_group();
        next.state = GroupState::Recovering;
        let next = view.try_to_end(&next, recovery.clone()).unwrap_or_else(|| {
            next.epoch = next.epoch.next();
            NextGroup { group: next, recovery }
        });
        let epoch = next.group.epoch;
        self.decide(keyspace, partition, next, draft);
        Ok(epoch.get())
    }

    fn end_if_possible(&mut self, keyspace: KeyspaceId, partition: PartitionId, draft: &mut MapDraft) {
        let Some(found) = self.map().keyspace(keyspace) else { return };
        let Some(group) = found.group(partition) else { return };
        let recovery = self.recoveries.get(&(keyspace, partition)).cloned().unwrap_or_default();
        let view = GroupContext { config: found.config(), state_of: &|instance| self.state_of(instance) };
        if let Some(next) = view.try_to_end(&group.to_group(), recovery) {
            if next.recovery.chosen_may_lack_end {
                draft.possible_losses.push((keyspace, partition));
            }
            draft.changes.push(MapChange::SetGroup { keyspace, partition, group: next.group });
        }
    }
}
