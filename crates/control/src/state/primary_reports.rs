//! Keyspaces whose primaries report that they are ready: to be dropped, or to be split.
//!
//! A keyspace that is being dropped is closed first, so that no new work starts in it, and removed once every primary has
//! reported that it has no pending work there. A keyspace or a region that is to be split waits until the primaries of its
//! partitions have committed all units over several keys, and start no new ones. Otherwise the children could have different
//! halves of such a unit after a failure.
//!
//! A primary's report is valid if the groups of the keyspace are the same in its map as now. Otherwise an instance that has
//! become primary since has not reported. What a report says remains true as long as the keyspace is being dropped, or its
//! split is pending.

use std::collections::BTreeSet;

use zerohop_placement::{GroupState, MapChange, MapDelta, PendingSplit};
use zerohop_wire::ids::{InstanceId, KeyspaceId, MapEpoch, PartitionId};

use super::{ControlState, MapDraft};
use crate::command::{CommandRefusal, KeyspaceDrained};
use crate::planted::{Bug, is_planted};

/// The reports about a keyspace that is being dropped or split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrimaryReports {
    /// The map in which the drop or split began, or a group of the keyspace changed last.
    pub since: MapEpoch,
    /// Instances that are ready, by that map or a later one.
    pub ready: BTreeSet<InstanceId>,
}

impl PrimaryReports {
    fn since(since: MapEpoch) -> PrimaryReports {
        PrimaryReports { since, ready: BTreeSet::new() }
    }
}

impl ControlState {
    /// The keyspaces that are being dropped or split.
    pub fn reported_keyspaces(&self) -> impl Iterator<Item = (KeyspaceId, &PrimaryReports)> {
        self.primary_reports.iter().map(|(id, reports)| (*id, reports))
    }

    /// Partitions whose primary has not reported that it is ready, of a keyspace that is being dropped or split.
    pub fn undrained(&self, id: KeyspaceId) -> Vec<PartitionId> {
        let (Some(found), Some(reports)) = (self.map().keyspace(id), self.primary_reports.get(&id)) else {
            return Vec::new();
        };
        let is_needed = |partition| found.pending_split().is_none_or(|split| split.covers(partition));
        let needed = found.groups().filter(|(partition, _)| is_needed(*partition));
        let open = needed.filter(|(_, group)| !reports.ready.contains(&group.primary));
        open.map(|(partition, _)| partition).collect()
    }

    /// Closes a keyspace. A repeated close changes nothing.
    pub(super) fn begin_drop_keyspace(
        &self,
        id: KeyspaceId,
        draft: &mut MapDraft,
    ) -> Result<u64, CommandRefusal> {
        let found = self.map().keyspace(id).ok_or(CommandRefusal::UnknownKeyspace)?;
        if !found.is_dropping() {
            draft.changes.push(MapChange::BeginDropKeyspace(id));
        }
        Ok(u64::from(id.get()))
    }

    /// Begins a split. Partitions with one copy are split at once: both children get the same log. A repeated begin changes nothing.
    pub(super) fn begin_split(
        &self,
        id: KeyspaceId,
        split: &PendingSplit,
        draft: &mut MapDraft,
    ) -> Result<u64, CommandRefusal> {
        self.check_splittable(id, split)?;
        let found = self.map().keyspace(id).ok_or(CommandRefusal::UnknownKeyspace)?;
        match found.pending_split() {
            Some(pending) if pending == split => return Ok(u64::from(id.get())),
            Some(_) => return Err(CommandRefusal::Map("another split of the keyspace is pending".into())),
            None => {}
        }
        let mut groups = found.groups().filter(|(partition, _)| split.covers(*partition));
        draft.changes.push(match groups.all(|(_, group)| group.members().count() == 1) {
            true => split.clone().into_change(id),
            false => MapChange::BeginSplit { keyspace: id, split: split.clone() },
        });
        Ok(u64::from(id.get()))
    }

    /// Gives the pending split of a keyspace up, if there is one.
    pub(super) fn cancel_split(&self, id: KeyspaceId, draft: &mut MapDraft) -> Result<u64, CommandRefusal> {
        let found = self.map().keyspace(id).ok_or(CommandRefusal::UnknownKeyspace)?;
        if found.pending_split().is_some() {
            draft.changes.push(MapChange::CancelSplit(id));
        }
        Ok(u64::from(id.get()))
    }

    /// A split is refused while a partition moves or recovers: the copy for the target of a move, and the request for a member's
    /// log end, name the partition.
    pub(super) fn check_splittable(
        &self,
        id: KeyspaceId,
        split: &PendingSplit,
    ) -> Result<(), CommandRefusal> {
        let found = self.map().keyspace(id).ok_or(CommandRefusal::UnknownKeyspace)?;
        if found.is_dropping() {
            return Err(CommandRefusal::Map("the keyspace is being dropped".into()));
        }
        if let PendingSplit::Region { region, .. } = split {
            found.group(*region).ok_or(CommandRefusal::UnknownPartition)?;
        }
        for (_, group) in found.groups().filter(|(partition, _)| split.covers(*partition)) {
            match group.state {
                GroupState::Stable => {}
                GroupState::Admitting => return Err(CommandRefusal::Moving),
                GroupState::Recovering => return Err(CommandRefusal::Recovering),
            }
        }
        Ok(())
    }

    /// An instance is ready in a keyspace. After the last such report the keyspace is removed, or its pending split is done.
    pub(super) fn drained(
        &mut self,
        drained: &KeyspaceDrained,
        draft: &mut MapDraft,
    ) -> Result<u64, CommandRefusal> {
        let KeyspaceDrained { keyspace, instance, map } = *drained;
        let found = self.history.map().keyspace(keyspace).ok_or(CommandRefusal::UnknownKeyspace)?;
        let reports = self.primary_reports.get_mut(&keyspace);
        let is_valid =
            |reports: &&mut PrimaryReports| map >= reports.since || is_planted(Bug::OlderReportCounts);
        let Some(reports) = reports.filter(is_valid) else {
            return Err(CommandRefusal::Map(
                "the keyspace is not being dropped or split, or its groups have changed since".into(),
            ));
        };
        if !found.groups().any(|(_, group)| group.primary == instance) {
            return Err(CommandRefusal::Map("it is no primary of the keyspace, and is not asked".into()));
        }
        reports.ready.insert(instance);
        if self.undrained(keyspace).is_empty() {
            match found.pending_split().cloned() {
                None => draft.changes.push(MapChange::DropKeyspace(keyspace)),
                // A group that moves or recovers changes again, and then all primaries report again.
                Some(split) if self.check_splittable(keyspace, &split).is_ok() => {
                    draft.changes.push(split.into_change(keyspace));
                }
                Some(_) => {}
            }
        }
        Ok(u64::from(keyspace.get()))
    }

    /// Updates the reports after a change of the map.
    pub(super) fn update_primary_reports(&mut self, delta: &MapDelta) {
        for change in &delta.changes {
            match change {
                MapChange::BeginDropKeyspace(keyspace) | MapChange::BeginSplit { keyspace, .. } => {
                    self.primary_reports.insert(*keyspace, PrimaryReports::since(delta.to));
                }
                MapChange::SetGroup { keyspace, .. } => {
                    if let Some(reports) = self.primary_reports.get_mut(keyspace) {
                        *reports = PrimaryReports::since(delta.to);
                    }
                }
                _ => {}
            }
        }
        let map = self.history.map();
        self.primary_reports.retain(|id, _| {
            map.keyspace(*id).is_some_and(|found| found.is_dropping() || found.pending_split().is_some())
        });
    }
}
