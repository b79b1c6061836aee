//! The invariants of managers, checked only from their outputs and the answers to clients.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_control::command::{
    CommandOutcome, CommandRefusal, CommandRequest, ControlCommand, GroupStep, ManagerId, Regroup, RequestId,
};
use zerohop_placement::{ClusterMap, Durability, GroupState, MapChange, MapDelta, Node};
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, PartitionEpoch, PartitionId};

/// The observations so far.
#[derive(Default)]
pub(crate) struct Checker {
    leaders: BTreeMap<u64, ManagerId>,
    /// The first map that was seen at each epoch.
    maps: BTreeMap<u64, ClusterMap>,
    /// The outcome of each request.
    pub(crate) decided: BTreeMap<RequestId, (CommandRequest, CommandOutcome)>,
    won: BTreeMap<(KeyspaceId, PartitionId, PartitionEpoch), RequestId>,
    /// Starts that found complete logs and the clean-shutdown file.
    closed: BTreeSet<Incarnation>,
    /// Admissions that primaries have requested: of which group, at which epoch, and the replica.
    admissions: BTreeSet<(KeyspaceId, PartitionId, PartitionEpoch, InstanceId)>,
    pub(crate) violations: Vec<String>,
    pub(crate) coverage: BTreeMap<&'static str, u64>,
}

impl Checker {
    pub(crate) fn saw(&mut self, what: &'static str) {
        *self.coverage.entry(what).or_default() += 1;
    }

    fn violation(&mut self, what: String) {
        if self.violations.len() < 5 {
            self.violations.push(what);
        }
    }

    pub(crate) fn record_leader(&mut self, term: u64, manager: ManagerId) {
        let first = *self.leaders.entry(term).or_insert_with(|| manager);
        if first != manager {
            self.violation(format!("{first} and {manager} both lead in term {term}"));
        }
    }

    pub(crate) fn terms(&self) -> usize {
        self.leaders.len()
    }

    /// A manager has applied a delta to its map.
    pub(crate) fn changed(&mut self, before: &ClusterMap, delta: &MapDelta, after: &ClusterMap) {
        if delta.from != before.epoch() || after.epoch() != delta.to || delta.to.get() != delta.from.get() + 1
        {
            self.violation(format!("from epoch {} to {} by way of {delta:?}", before.epoch(), after.epoch()));
        }
        if self.has(after) {
            return;
        }
        for change in &delta.changes {
            match change {
                MapChange::SetGroup { keyspace, partition, .. } => {
                    self.group_changed(before, after, *keyspace, *partition);
                }
                MapChange::PutNode(node) => {
                    let old = before.node(node.id);
                    if old.is_some_and(|old| old.incarnation() != node.incarnation) {
                        self.saw("restarts of nodes");
                        self.restarted(before, after, node);
                    }
                }
                MapChange::SplitKeyspace(_) => self.saw("splits"),
                MapChange::CreateKeyspace { .. } => self.saw("keyspaces"),
                _ => {}
            }
        }
    }

    /// A manager has this map: all managers must have the same map at an epoch. Returns whether the
    /// epoch was seen before.
    pub(crate) fn has(&mut self, map: &ClusterMap) -> bool {
        match self.maps.get(&map.epoch().get()) {
            None => {
                self.maps.insert(map.epoch().get(), map.clone());
                false
            }
            Some(seen) => {
                if seen != map {
                    self.violation(format!("two maps of epoch {}", map.epoch()));
                }
                true
            }
        }
    }

    fn group_changed(
        &mut self,
        before: &ClusterMap,
        after: &ClusterMap,
        keyspace: KeyspaceId,
        partition: PartitionId,
    ) {
        let group = |map: &ClusterMap| {
            map.keyspace(keyspace).and_then(|one| one.group(partition)).map(|one| one.to_group())
        };
        let (Some(old), Some(new)) = (group(before), group(after)) else { return };
        if old.epoch >= new.epoch {
            self.violation(format!(
                "the epoch of {keyspace}/{partition} went from {} to {}",
                old.epoch, new.epoch
            ));
        }
        let down = |instance: InstanceId| {
            let node = after.instance(instance).and_then(|one| after.node(one.node));
            node.is_none_or(|node| node.state() == zerohop_placement::NodeState::Down)
        };
        if old.primary != new.primary {
            self.saw("promotions");
            if down(new.primary) {
                self.violation(format!("{keyspace}/{partition}: {} is promoted and down", new.primary));
            }
            // An operator's `recover` of a group without any member that is up: it starts empty elsewhere.
            let is_given_up = old.as_group().members().all(down)
                && !old.as_group().members().any(|member| member == new.primary)
                && new.as_group().members().count() == 1;
            // The primary's node was declared down before its last admission was decided.
            let is_admitted =
                down(old.primary) && self.admissions.contains(&(keyspace, partition, old.epoch, new.primary));
            if is_given_up {
                self.saw("groups given up");
            } else if is_admitted && !old.in_sync.contains(&new.primary) {
                self.saw("primaries replaced by what they admitted");
            } else if old.state != GroupState::Recovering && !old.in_sync.contains(&new.primary) {
                self.violation(format!(
                    "{keyspace}/{partition}: {} is promoted and was not in sync: {old:?} to {new:?}",
                    new.primary
                ));
            }
        }
        match (old.state, new.state) {
            (GroupState::Recovering, GroupState::Stable) => self.saw("recoveries ended"),
            (old, GroupState::Recovering) if old != GroupState::Recovering => self.saw("recoveries begun"),
            (GroupState::Stable, GroupState::Admitting) => self.saw("moves begun"),
            (GroupState::Admitting, GroupState::Stable) if new.in_sync.contains(&old.followers[0]) => {
                self.saw("targets admitted");
            }
            (GroupState::Admitting, GroupState::Stable) => self.saw("moves abandoned"),
            _ => {}
        }
    }

    fn restarted(&mut self, before: &ClusterMap, after: &ClusterMap, node: &Node) {
        let (first, count) = (node.first_instance, node.instances.len() as u32);
        let closed = self.closed.contains(&node.incarnation);
        let mut kept = false;
        let own = |instance: &InstanceId| (first.get()..first.get() + count).contains(&instance.get());
        let mut violations = Vec::new();
        for (id, keyspace) in after.keyspaces() {
            for (partition, group) in keyspace.groups() {
                let old = before.keyspace(id).and_then(|keyspace| keyspace.group(partition));
                if old.is_some_and(|old| old.epoch == group.epoch) && group.members().any(|one| own(&one)) {
                    violations
                        .push(format!("{id}/{partition} names a restarted instance under its old epoch"));
                }
                let keeps_all = match keyspace.config().durability {
                    Durability::Sync => true,
                    Durability::Interval { .. } => closed,
                    Durability::Memory => false,
                };
                let serves = group.state != GroupState::Recovering;
                let in_sync = own(&group.primary) || group.in_sync.iter().any(own);
                // A group whose log was chosen just now may have any owner of that log as its
                // primary.
                let chosen = old.is_some_and(|old| old.state == GroupState::Recovering);
                kept |= serves && in_sync && closed && !chosen;
                if serves && in_sync && !keeps_all && !chosen {
                    violations
                        .push(format!("{id}/{partition} counts a restarted instance as in sync: {group:?}"));
                }
            }
        }
        if kept {
            self.saw("kept over a clean shutdown");
        }
        violations.into_iter().for_each(|what| self.violation(what));
    }

    /// A client has sent this command.
    pub(crate) fn record_command(&mut self, command: &ControlCommand) {
        if let ControlCommand::Join(join) = command
            && join.intact
            && join.closed
        {
            self.closed.insert(join.incarnation);
        }
        if let ControlCommand::Regroup(Regroup {
            keyspace,
            partition,
            epoch,
            step: GroupStep::Admit(one),
            ..
        }) = command
        {
            self.admissions.insert((*keyspace, *partition, *epoch, *one));
        }
    }

    /// A client has received the outcome of a request.
    pub(crate) fn decided(&mut self, request: &CommandRequest, outcome: &CommandOutcome) {
        if outcome.result == Err(CommandRefusal::TooOld) {
            self.saw("too old");
            return;
        }
        if let Some((_, first)) = self.decided.get(&request.id) {
            if first != outcome {
                let (first, id) = (first.clone(), request.id);
                self.violation(format!("{id:?} got {first:?}, and then {outcome:?}"));
            }
            return;
        }
        self.saw(if outcome.result.is_ok() { "done" } else { "refused" });
        if let (ControlCommand::Regroup(regroup), Ok(_)) = (&request.command, &outcome.result) {
            let place = (regroup.keyspace, regroup.partition, regroup.epoch);
            if let Some(other) = self.won.insert(place, request.id) {
                self.violation(format!("{other:?} and {:?} both changed {place:?}", request.id));
            }
        }
        self.decided.insert(request.id, (request.clone(), outcome.clone()));
    }
}
