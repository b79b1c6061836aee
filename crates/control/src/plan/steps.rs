//! Which change comes next, for one group and for all.

use std::collections::BTreeMap;

use zerohop_placement::{Group, GroupState, KeyspaceConfig, NodeState};
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionId};

use super::tally::PlacementTally;
use super::{PlanInputs, PlanSettings, Ring};
use crate::command::{GroupStep, Regroup, RegroupOrigin};
use crate::state::{ControlState, Pin};

/// See [`super::plan`].
pub(super) struct Planner<'a> {
    state: &'a ControlState,
    seen: &'a PlanInputs<'a>,
    settings: PlanSettings,
    tally: PlacementTally,
    /// Places in the ring, of each keyspace.
    places: BTreeMap<KeyspaceId, BTreeMap<InstanceId, usize>>,
    moves: usize,
    steps: Vec<Regroup>,
    /// Instances that may hold a copy, those with them that are only away for a while: their copies are not dropped where
    /// there is nobody to take them.
    counted: usize,
}

/// A group that may be moved: it is whole, and nothing is under way.
struct StableGroup<'a> {
    keyspace: KeyspaceId,
    partition: PartitionId,
    group: Group<'a>,
    /// An operator has said where it is to be, and it is there.
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
                tally.want(usize::from(keyspace.config().replicas).min(up));
                group.members().for_each(|member| tally.hold(member, 1));
                tally.serve(None, group.primary, load(seen, id, partition));
            }
        }
        let is_away =
            |seat: &super::tally::InstanceLoad| seat.state == NodeState::Down && !(seen.given_up)(seat.node);
        let counted = up + tally.seats().filter(|(_, seat)| is_away(seat)).count();
        Planner {
            state,
            seen,
            settings,
            tally,
            places: BTreeMap::new(),
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
                if self.go_on(keyspace, found.config(), partition, group) {
                    let is_pinned = self.pin(keyspace, partition).is_some();
                    quiet.push(StableGroup { keyspace, partition, group, is_pinned });
                }
            }
        }
        self.begin_moves(&quiet);
        self.even_primaries(&quiet);
        self.steps
    }

    /// What a group needs by itself. Whether it needs nothing, and may be moved.
    fn go_on(
        &mut self,
        keyspace: KeyspaceId,
        config: &KeyspaceConfig,
        partition: PartitionId,
        group: Group<'_>,
    ) -> bool {
        if group.state == GroupState::Recovering || self.is_down(group.primary) {
            return false;
        }
        let wanted = usize::from(config.replicas).min(self.counted);
        let gone = |planner: &Self, instance: InstanceId| {
            let seat = planner.tally.seat(instance);
            seat.is_none_or(|seat| seat.state == NodeState::Down && (planner.seen.given_up)(seat.node))
        };
        let counted = group.members().filter(|member| !gone(self, *member)).count();
        let step = if group.state == GroupState::Admitting {
            self.moves += 1;
            let target = group.followers[0];
            let pin = self.pin(keyspace, partition);
            // Nobody leaves for one that has followed before.
            if counted > wanted
                && let Some(leaver) = self.leaver(config, group, pin, Some(target))
            {
                self.tally.hold(leaver, -1);
            }
            let overdue = (self.seen.overdue)(keyspace, partition, group.epoch);
            // One that is only taken for dead for a moment, or starts again, goes on where it was.
            (gone(self, target) || overdue).then_some(GroupStep::RemoveFollower(target))
        } else if let Some(step) = self.towards_pin(keyspace, config, partition, group) {
            Some(step)
        } else if counted < wanted {
            let candidate = self.candidate(keyspace, group, None);
            if let Some(instance) = candidate {
                self.tally.hold(instance, 1);
            }
            candidate.map(|instance| GroupStep::AddFollower { instance, target: false })
        } else if let Some(dead) = group.followers.iter().copied().find(|one| gone(self, *one)) {
            self.tally.hold(dead, -1);
            Some(GroupStep::RemoveFollower(dead))
        } else if self.awaits_pinned(keyspace, partition, group, &gone) {
            None
        } else if counted > wanted {
            let leaver = self.leaver(config, group, self.pin(keyspace, partition), None);
            if let Some(leaver) = leaver {
                self.tally.hold(leaver, -1);
            }
            leaver.and_then(|leaver| self.leave(group, leaver))
        } else if group.in_sync.len() + 1 > usize::from(config.min_in_sync)
            && let Some(heir) = self.evening_heir(keyspace, partition, group)
        {
            Some(GroupStep::Promote(heir))
        } else if group.in_sync.len() + 1 > usize::from(config.min_in_sync) {
            // Whoever should not be primary soon is let go last.
            let heaviest = group
                .in_sync
                .iter()
                .copied()
                .max_by_key(|one| (!self.tally.is(*one, NodeState::Up), self.tally.laden(*one), *one));
            heaviest.map(GroupStep::Demote)
        } else {
            return group.members().all(|member| !self.is_down(member));
        };
        self.push(keyspace, partition, group, step);
        false
    }

    /// Where an operator wants the partition, as long as that can be.
    fn pin(&self, keyspace: KeyspaceId, partition: PartitionId) -> Option<Pin> {
        self.state.pin(keyspace, partition).filter(|pin| self.tally.is(pin.to, NodeState::Up))
    }

    /// Whether an operator's move has come so far that its target holds the partition, and the target is away for a moment: it is
    /// not taken for a copy too many meanwhile.
    fn awaits_pinned(
        &self,
        keyspace: KeyspaceId,
        partition: PartitionId,
        group: Group<'_>,
        gone: &dyn Fn(&Self, InstanceId) -> bool,
    ) -> bool {
        self.state.pin(keyspace, partition).is_some_and(|Pin { to, .. }| {
            group.followers.contains(&to) && self.is_down(to) && !gone(self, to)
        })
    }

    /// The next step to where an operator wants the partition. Who follows already is awaited if more are to be in sync; if
    /// not, nobody would admit it: it was admitted, and put out of sync again as it was late or away, and is asked for once more.
    fn towards_pin(
        &mut self,
        keyspace: KeyspaceId,
        config: &KeyspaceConfig,
        partition: PartitionId,
        group: Group<'_>,
    ) -> Option<GroupStep> {
        let Pin { to, from } = self.pin(keyspace, partition)?;
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
        self.tally.hold(to, 1);
        self.tally.hold(from, -1);
        Some(GroupStep::AddFollower { instance: to, target: true })
    }

    /// How a member leaves that is one too many: who is primary hands over first.
    fn leave(&self, group: Group<'_>, leaver: InstanceId) -> Option<GroupStep> {
        if group.followers.contains(&leaver) {
            return Some(GroupStep::RemoveFollower(leaver));
        }
        if group.in_sync.contains(&leaver) {
            return Some(GroupStep::Leave(leaver));
        }
        let heir = group
            .in_sync
            .iter()
            .copied()
            .filter(|one| !self.is_down(*one))
            .min_by_key(|one| (!self.tally.is(*one, NodeState::Up), self.tally.laden(*one), *one));
        heir.map(GroupStep::Promote)
    }

    /// Who is to leave a group that has, or will have, one member too many: who drains, then who shares a domain, then
    /// who holds the most beside its share. Nobody whose leaving would leave too few in sync.
    fn leaver(
        &self,
        config: &KeyspaceConfig,
        group: Group<'_>,
        pin: Option<Pin>,
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

    /// How many other members are in the same domain as one of them, or as somebody else would be in its place.
    fn shares_domain(
        &self,
        group: Group<'_>,
        one: InstanceId,
        leaving: Option<InstanceId>,
    ) -> (usize, usize) {
        let Some(seat) = self.tally.seat(one) else { return (0, 0) };
        let others = group.members().filter(|other| *other != one && Some(*other) != leaving);
        let others: Vec<_> = others.filter_map(|other| self.tally.seat(other)).collect();
        (
            others.iter().filter(|other| other.domain == seat.domain).count(),
            others.iter().filter(|other| other.node == seat.node).count(),
        )
    }

    /// Who is to join a group, in the place of a member if one is to leave: in another domain and on another node than
    /// the others, then who holds the least beside its share, then who is next in the ring.
    fn candidate(
        &mut self,
        keyspace: KeyspaceId,
        group: Group<'_>,
        leaving: Option<InstanceId>,
    ) -> Option<InstanceId> {
        let state = self.state;
        let places = self.places.entry(keyspace).or_insert_with(|| {
            let seed = state.map().keyspace(keyspace).map_or(0, |found| found.config().seed);
            let ring = Ring::new(state, seed);
            ring.spots().iter().enumerate().map(|(at, spot)| (spot.instance, at)).collect()
        });
        let count = places.len().max(1);
        let start = places.get(&group.primary).copied().unwrap_or(0);
        let distance: BTreeMap<InstanceId, usize> =
            places.iter().map(|(instance, at)| (*instance, (at + count - start) % count)).collect();
        let free = self.tally.seats().filter(|(instance, seat)| {
            seat.state == NodeState::Up && group.members().all(|member| member != *instance)
        });
        free.map(|(instance, _)| instance).min_by_key(|instance| {
            let shares = self.shares_domain(group, *instance, leaving);
            (shares, self.tally.excess(*instance), distance.get(instance).copied(), *instance)
        })
    }

    /// Moves that begin now, as far as there is budget: away from nodes that drain, out of shared domains, from the
    /// fullest.
    fn begin_moves(&mut self, quiet: &[StableGroup<'_>]) {
        let mut order: Vec<(usize, InstanceId)> = Vec::new();
        for (at, one) in quiet.iter().enumerate() {
            order.extend(one.group.members().map(|member| (at, member)));
        }
        let urgency = |planner: &Self, at: usize, member: InstanceId| {
            let drains = planner.tally.is(member, NodeState::Draining);
            (drains, planner.shares_domain(quiet[at].group, member, None), planner.tally.excess(member))
        };
        order.sort_by_key(|(at, member)| std::cmp::Reverse((urgency(self, *at, *member), *at, *member)));
        let mut moved = vec![false; quiet.len()];
        for (at, member) in order {
            if self.is_full() || self.moves >= self.settings.moves_max {
                return;
            }
            let StableGroup { keyspace, partition, group, is_pinned } = quiet[at];
            let (drains, shares, excess) = urgency(self, at, member);
            // The fullest come first: whoever has no more than its share and one is followed by none that has.
            if moved[at] || (!drains && shares == (0, 0) && (is_pinned || excess <= 0)) {
                continue;
            }
            let Some(target) = self.candidate(keyspace, group, Some(member)) else { continue };
            let after = self.shares_domain(group, target, Some(member));
            let evens = after <= shares && excess - self.tally.excess(target) > self.tally.one();
            if !(drains || after < shares || evens) {
                continue;
            }
            moved[at] = true;
            self.moves += 1;
            self.tally.hold(target, 1);
            self.tally.hold(member, -1);
            let step = GroupStep::AddFollower { instance: target, target: true };
            self.push(keyspace, partition, group, Some(step));
        }
    }

    /// Primaries change places with other members where that makes what is asked of them more even. It copies nothing,
    /// but every such change is a redirect for clients, so it waits for moves to end, and for nodes to be left alone: who
    /// flaps would be given primaries only to lose them again.
    fn even_primaries(&mut self, quiet: &[StableGroup<'_>]) {
        if self.moves > 0 || !self.steps.is_empty() || !self.seen.is_calm {
            return;
        }
        for StableGroup { keyspace, partition, group, is_pinned } in quiet {
            if self.is_full() {
                return;
            }
            if *is_pinned {
                continue;
            }
            let step = match self.evening_heir(*keyspace, *partition, *group) {
                Some(heir) => Some(GroupStep::Promote(heir)),
                None => self.evening_follower(*keyspace, *partition, *group),
            };
            self.push(*keyspace, *partition, *group, step);
        }
    }

    /// The in-sync replica that is to be primary instead, if that makes what is asked of the two more even.
    fn evening_heir(
        &mut self,
        keyspace: KeyspaceId,
        partition: PartitionId,
        group: Group<'_>,
    ) -> Option<InstanceId> {
        if !self.seen.is_calm || self.pin(keyspace, partition).is_some() {
            return None;
        }
        let load = load(self.seen, keyspace, partition);
        let heir = self.least_laden(group.in_sync, load)?;
        if !self.tally.evens(group.primary, heir, load) {
            return None;
        }
        self.tally.serve(Some(group.primary), heir, load);
        Some(heir)
    }

    /// A follower is to be in sync, so that it can be primary next: a node that was away follows everywhere, and nobody else would
    /// admit it where enough are in sync. It must even more than twice, as it takes four changes of the group.
    fn evening_follower(
        &mut self,
        keyspace: KeyspaceId,
        partition: PartitionId,
        group: Group<'_>,
    ) -> Option<GroupStep> {
        if self.moves >= self.settings.moves_max {
            return None;
        }
        let load = load(self.seen, keyspace, partition);
        let instance = self.least_laden(group.followers, load)?;
        if !self.tally.evens(group.primary, instance, load.saturating_mul(2)) {
            return None;
        }
        self.moves += 1;
        self.tally.serve(Some(group.primary), instance, load);
        Some(GroupStep::AddFollower { instance, target: true })
    }

    /// Which of these is the least laden once it has so much more: of two that have nothing that is the one of more weight.
    fn least_laden(&self, members: &[InstanceId], load: u32) -> Option<InstanceId> {
        let up = members.iter().copied().filter(|one| self.tally.is(*one, NodeState::Up));
        up.min_by_key(|one| (self.tally.laden_with(*one, load), *one))
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
