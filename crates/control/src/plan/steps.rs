//! The next change, for one group and for all.

use std::collections::BTreeMap;

use zerohop_placement::{Group, GroupState, KeyspaceConfig, NodeState};
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionId};

use super::load::{InstanceLoad, PlacementTally};
use super::{PlanInputs, PlanSettings, Ring};
use crate::command::{GroupStep, Regroup, RegroupOrigin};
use crate::state::{ControlState, PlacementOverride};

/// See [`super::plan`].
pub(super) struct Planner<'a> {
    state: &'a ControlState,
    seen: &'a PlanInputs<'a>,
    settings: PlanSettings,
    tally: PlacementTally,
    /// The places in the ring, for each keyspace.
    ring_positions: BTreeMap<KeyspaceId, BTreeMap<InstanceId, usize>>,
    moves: usize,
    steps: Vec<Regroup>,
    /// Number of instances that may have a copy, including those that are down for a short time: their copies
    /// are not dropped if no other instance can replace them.
    counted: usize,
}

/// A group that may be moved: it is complete, and no change is pending.
struct StableGroup<'a> {
    keyspace: KeyspaceId,
    partition: PartitionId,
    group: Group<'a>,
    /// An operator has pinned it, and it is in its place.
    is_pinned: bool,
}

impl<'a> Planner<'a> {
    pub(super) fn new(
        state: &'a ControlState,
        seen: &'a PlanInputs<'a>,
        settings: PlanSettings,
    ) -> Planner<'a> {
        let mut tally = PlacementTally::new(state);
        let up = tally.up();
        for (id, keyspace) in state.map().keyspaces() {
            for (partition, group) in keyspace.groups() {
                tally.add_wanted(usize::from(keyspace.config().replicas).min(up));
                group.members().for_each(|member| tally.add_copies(member, 1));
                tally.serve(None, group.primary, load(seen, id, partition));
            }
        }
        let is_away =
            |load: &InstanceLoad| load.state == NodeState::Down && !(seen.long_down_nodes)(load.node);
        let counted = up + tally.instances().filter(|(_, load)| is_away(load)).count();
        Planner {
            state,
            seen,
            settings,
            tally,
            ring_positions: BTreeMap::new(),
            moves: 0,
            steps: Vec::new(),
            counted,
        }
    }

    pub(super) fn plan(mut self) -> Vec<Regroup> {
        let state = self.state;
        let mut quiet = Vec::new();
        for (keyspace, found) in state.map().keyspaces() {
            for (partition, group) in found.groups() {
                if self.is_full() {
                    return self.steps;
                }
                if self.next_change(keyspace, found.config(), partition, group) {
                    let is_pinned = self.placement_override(keyspace, partition).is_some();
                    quiet.push(StableGroup { keyspace, partition, group, is_pinned });
                }
            }
        }
        self.begin_moves(&quiet);
        self.even_primaries(&quiet);
        self.steps
    }

    /// The next change that a group needs by itself. Returns whether it needs none, and may be moved.
    fn next_change(
        &mut self,
        keyspace: KeyspaceId,
        config: &KeyspaceConfig,
        partition: PartitionId,
        group: Group<'_>,
    ) -> bool {
        if group.state == GroupState::Recovering || self.is_down(group.primary) {
            return false;
        }
        let requested = usize::from(config.replicas).min(self.counted);
        let gone = |planner: &Self, instance: InstanceId| {
            let load = planner.tally.load_of(instance);
            load.is_none_or(|load| load.state == NodeState::Down && (planner.seen.long_down_nodes)(load.node))
        };
        let counted = group.members().filter(|member| !gone(self, *member)).count();
        let step = if group.state == GroupState::Admitting {
            self.moves += 1;
            let target = group.followers[0];
            let pin = self.placement_override(keyspace, partition);
            // No member leaves in exchange for a target that was a follower before.
            if counted > requested
                && let Some(replica_to_remove) = self.replica_to_remove(config, group, pin, Some(target))
            {
                self.tally.add_copies(replica_to_remove, -1);
            }
            let overdue = (self.seen.overdue)(keyspace, partition, group.epoch);
            // A target that is only briefly considered dead, or restarts, continues as target.
            (gone(self, target) || overdue).then_some(GroupStep::RemoveFollower(target))
        } else if let Some(step) = self.towards_pin(keyspace, config, partition, group) {
            Some(step)
        } else if counted < requested {
            let candidate = self.candidate(keyspace, group, None);
            if let Some(instance) = candidate {
                self.tally.add_copies(instance, 1);
            }
            candidate.map(|instance| GroupStep::AddFollower { instance, target: false })
        } else if let Some(dead) = group.followers.iter().copied().find(|one| gone(self, *one)) {
            self.tally.add_copies(dead, -1);
            Some(GroupStep::RemoveFollower(dead))
        } else if self.awaits_pinned(keyspace, partition, group, &gone) {
            None
        } else if counted > requested {
            let replica_to_remove =
                self.replica_to_remove(config, group, self.placement_override(keyspace, partition), None);
            if let Some(replica_to_remove) = replica_to_remove {
                self.tally.add_copies(replica_to_remove, -1);
            }
            replica_to_remove.and_then(|replica_to_remove| self.leave(group, replica_to_remove))
        } else if group.in_sync.len() + 1 > usize::from(config.min_in_sync)
            && let Some(heir) = self.balancing_successor(keyspace, partition, group)
        {
            Some(GroupStep::Promote(heir))
        } else if group.in_sync.len() + 1 > usize::from(config.min_in_sync) {
            // A member that should not be primary soon is removed last.
            let heaviest = group.in_sync.iter().copied().max_by_key(|one| {
                (!self.tally.is(*one, NodeState::Up), self.tally.load_per_weight(*one), *one)
            });
            heaviest.map(GroupStep::Demote)
        } else {
            return group.members().all(|member| !self.is_down(member));
        };
        self.push(keyspace, partition, group, step);
        false
    }

    /// The pin of a partition, as long as it can be satisfied.
    fn placement_override(&self, keyspace: KeyspaceId, partition: PartitionId) -> Option<PlacementOverride> {
        self.state.placement_override(keyspace, partition).filter(|pin| self.tally.is(pin.to, NodeState::Up))
    }

    /// Whether the target of an operator's move has the partition and is down for a moment: it does not count
    /// as a surplus copy meanwhile.
    fn awaits_pinned(
        &self,
        keyspace: KeyspaceId,
        partition: PartitionId,
        group: Group<'_>,
        gone: &dyn Fn(&Self, InstanceId) -> bool,
    ) -> bool {
        self.state.placement_override(keyspace, partition).is_some_and(|PlacementOverride { to, .. }| {
            group.followers.contains(&to) && self.is_down(to) && !gone(self, to)
        })
    }

    /// The next step towards the pinned place. If more in-sync replicas are wanted, the plan waits for a
    /// follower to be admitted. If not, no primary would admit it: the target was admitted, then removed from
    /// the in-sync set because it was late or down. The plan then requests its admission once more.
    fn towards_pin(
        &mut self,
        keyspace: KeyspaceId,
        config: &KeyspaceConfig,
        partition: PartitionId,
        group: Group<'_>,
    ) -> Option<GroupStep> {
        let PlacementOverride { to, from } = self.placement_override(keyspace, partition)?;
        if group.in_sync.contains(&to) {
            return Some(GroupStep::Promote(to));
        }
        if group.primary == to || self.moves >= self.settings.moves_max {
            return None;
        }
        if group.followers.contains(&to) {
            let are_enough = group.in_sync.len() + 1 >= usize::from(config.min_in_sync);
            self.moves += usize::from(are_enough);
            return are_enough.then_some(GroupStep::AddFollower { instance: to, target: true });
        }
        self.moves += 1;
        self.tally.add_copies(to, 1);
        self.tally.add_copies(from, -1);
        Some(GroupStep::AddFollower { instance: to, target: true })
    }

    /// How a surplus member leaves: a primary hands over first.
    fn leave(&self, group: Group<'_>, replica_to_remove: InstanceId) -> Option<GroupStep> {
        if group.followers.contains(&replica_to_remove) {
            return Some(GroupStep::RemoveFollower(replica_to_remove));
        }
        if group.in_sync.contains(&replica_to_remove) {
            return Some(GroupStep::Leave(replica_to_remove));
        }
        let heir =
            group.in_sync.iter().copied().filter(|one| !self.is_down(*one)).min_by_key(|one| {
                (!self.tally.is(*one, NodeState::Up), self.tally.load_per_weight(*one), *one)
            });
        heir.map(GroupStep::Promote)
    }

    /// The member that leaves a group that has, or will have, one member too many. Preferred is a member on a
    /// draining node, then a member that shares a domain, then the member with the most copies relative to
    /// its share. A member is not chosen if too few would stay in sync.
    fn replica_to_remove(
        &self,
        config: &KeyspaceConfig,
        group: Group<'_>,
        pin: Option<PlacementOverride>,
        target: Option<InstanceId>,
    ) -> Option<InstanceId> {
        let in_sync_after = group.in_sync.len() + usize::from(target.is_some());
        let may_leave = |one: &InstanceId| {
            Some(*one) != target
                && pin.is_none_or(|pin| pin.to != *one)
                && (group.followers.contains(one) || in_sync_after >= usize::from(config.min_in_sync))
        };
        group.members().filter(may_leave).max_by_key(|one| {
            let drains = !self.tally.is(*one, NodeState::Up);
            (
                drains,
                pin.is_some_and(|pin| pin.from == *one),
                self.shares_domain(group, *one, None),
                self.tally.excess(*one),
                *one,
            )
        })
    }

    /// The number of other members in the same domain as this member, or as a replacement would be.
    fn shares_domain(
        &self,
        group: Group<'_>,
        one: InstanceId,
        leaving: Option<InstanceId>,
    ) -> (usize, usize) {
        let Some(load) = self.tally.load_of(one) else { return (0, 0) };
        let others = group.members().filter(|other| *other != one && Some(*other) != leaving);
        others.filter_map(|other| self.tally.load_of(other)).fold((0, 0), |(domain, node), other| {
            (domain + usize::from(other.domain == load.domain), node + usize::from(other.node == load.node))
        })
    }

    /// The instance that joins a group, in place of a member if one is to leave. Preferred is an instance in another domain
    /// and on another node than the other members. Next comes the instance with the fewest copies relative to its share,
    /// then the next in the ring.
    fn candidate(
        &mut self,
        keyspace: KeyspaceId,
        group: Group<'_>,
        leaving: Option<InstanceId>,
    ) -> Option<InstanceId> {
        let is_free = |instance: InstanceId, load: &InstanceLoad| {
            load.state == NodeState::Up && group.members().all(|member| member != instance)
        };
        if !self.tally.instances().any(|(instance, load)| is_free(instance, load)) {
            return None;
        }
        let state = self.state;
        self.ring_positions.entry(keyspace).or_insert_with(|| {
            let seed = state.map().keyspace(keyspace).map_or(0, |found| found.config().seed);
            let ring = Ring::new(state, seed);
            ring.points().iter().enumerate().map(|(at, point)| (point.instance, at)).collect()
        });
        let places = &self.ring_positions[&keyspace];
        let count = places.len().max(1);
        let start = places.get(&group.primary).copied().unwrap_or(0);
        let distance = |instance: &InstanceId| places.get(instance).map(|at| (at + count - start) % count);
        let free = self.tally.instances().filter(|(instance, load)| is_free(*instance, load));
        free.map(|(instance, _)| instance).min_by_key(|instance| {
            let shares = self.shares_domain(group, *instance, leaving);
            (shares, self.tally.excess(*instance), distance(instance), *instance)
        })
    }

    /// Starts moves as far as there is budget: away from draining nodes, out of shared domains, from the
    /// fullest instances.
    fn begin_moves(&mut self, quiet: &[StableGroup<'_>]) {
        let urgency = |planner: &Self, at: usize, member: InstanceId| {
            let drains = planner.tally.is(member, NodeState::Draining);
            (drains, planner.shares_domain(quiet[at].group, member, None), planner.tally.excess(member))
        };
        // Nearly all members of a balanced cluster have no reason to move. They are left out before the sort.
        let least = self.tally.least_excess();
        let has_domains = self.tally.has_several_domains();
        let mut order = Vec::new();
        for (at, one) in quiet.iter().enumerate() {
            for member in one.group.members() {
                let (drains, shares, excess) = urgency(self, at, member);
                let may_separate = shares.1 > 0 || (has_domains && shares.0 > 0);
                let may_even = !one.is_pinned && least.is_some_and(|least| excess - least > self.tally.one());
                if drains || may_separate || may_even {
                    order.push(((drains, shares, excess), at, member));
                }
            }
        }
        order.sort_unstable_by(|one, other| other.cmp(one));
        let mut moved = vec![false; quiet.len()];
        for (_, at, member) in order {
            if self.is_full() || self.moves >= self.settings.moves_max {
                return;
            }
            let StableGroup { keyspace, partition, group, is_pinned } = quiet[at];
            let (drains, shares, excess) = urgency(self, at, member);
            // The fullest instances come first: after an instance with at most one copy above its share there
            // is none with more.
            if moved[at] || (!drains && shares == (0, 0) && (is_pinned || excess <= 0)) {
                continue;
            }
            let Some(target) = self.candidate(keyspace, group, Some(member)) else { continue };
            let after = self.shares_domain(group, target, Some(member));
            let balances_load = after <= shares && excess - self.tally.excess(target) > self.tally.one();
            if !(drains || after < shares || balances_load) {
                continue;
            }
            moved[at] = true;
            self.moves += 1;
            self.tally.add_copies(target, 1);
            self.tally.add_copies(member, -1);
            let step = GroupStep::AddFollower { instance: target, target: true };
            self.push(keyspace, partition, group, Some(step));
        }
    }

    /// Swaps primaries with other members where that balances the load. It copies nothing, but every swap is
    /// a redirect for clients. It therefore waits until moves have ended and nodes are stable: a flapping
    /// node would get primaries only to lose them again.
    fn even_primaries(&mut self, quiet: &[StableGroup<'_>]) {
        if self.moves > 0 || !self.steps.is_empty() || !self.seen.is_stable {
            return;
        }
        for StableGroup { keyspace, partition, group, is_pinned } in quiet {
            if self.is_full() {
                return;
            }
            if *is_pinned {
                continue;
            }
            let step = match self.balancing_successor(*keyspace, *partition, *group) {
                Some(heir) => Some(GroupStep::Promote(heir)),
                None => self.balancing_follower(*keyspace, *partition, *group),
            };
            self.push(*keyspace, *partition, *group, step);
        }
    }

    /// The in-sync replica that should become primary instead, if that balances the load of the two.
    fn balancing_successor(
        &mut self,
        keyspace: KeyspaceId,
        partition: PartitionId,
        group: Group<'_>,
    ) -> Option<InstanceId> {
        if !self.seen.is_stable || self.placement_override(keyspace, partition).is_some() {
            return None;
        }
        let load = load(self.seen, keyspace, partition);
        let heir = self.least_loaded(group.in_sync, load)?;
        if !self.tally.balances_load(group.primary, heir, load) {
            return None;
        }
        self.tally.serve(Some(group.primary), heir, load);
        Some(heir)
    }

    /// A follower is to be in sync, so that it can become primary next. A node that was down is a follower
    /// everywhere, and no primary would admit it where enough replicas are in sync. The gain must be more
    /// than double, because this takes four changes of the group.
    fn balancing_follower(
        &mut self,
        keyspace: KeyspaceId,
        partition: PartitionId,
        group: Group<'_>,
    ) -> Option<GroupStep> {
        if self.moves >= self.settings.moves_max {
            return None;
        }
        let load = load(self.seen, keyspace, partition);
        let instance = self.least_loaded(group.followers, load)?;
        if !self.tally.balances_load(group.primary, instance, load.saturating_mul(2)) {
            return None;
        }
        self.moves += 1;
        self.tally.serve(Some(group.primary), instance, load);
        Some(GroupStep::AddFollower { instance, target: true })
    }

    /// The member with the least load after an increase of `load`: of two without load, the one of more
    /// weight.
    fn least_loaded(&self, members: &[InstanceId], load: u32) -> Option<InstanceId> {
        let up = members.iter().copied().filter(|one| self.tally.is(*one, NodeState::Up));
        up.min_by_key(|one| (self.tally.load_per_weight_with(*one, load), *one))
    }

    fn push(
        &mut self,
        keyspace: KeyspaceId,
        partition: PartitionId,
        group: Group<'_>,
        step: Option<GroupStep>,
    ) {
        if let Some(step) = step {
            let epoch = group.epoch;
            self.steps.push(Regroup { keyspace, partition, epoch, by: RegroupOrigin::Control, step });
        }
    }

    fn is_full(&self) -> bool {
        self.steps.len() >= self.settings.steps_max
    }

    fn is_down(&self, instance: InstanceId) -> bool {
        self.tally.is(instance, NodeState::Down)
    }
}

fn load(seen: &PlanInputs<'_>, keyspace: KeyspaceId, partition: PartitionId) -> u32 {
    seen.loads.get(&(keyspace, partition)).copied().unwrap_or(1).max(1)
}
