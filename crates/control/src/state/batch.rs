//! Several changes of groups as one change of the map. A node that is lost, returns or is drained concerns
//! hundreds of groups, and each change of the map is sent to every node and to every client.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_placement::{MapChange, ReplicaGroup};
use zerohop_wire::ids::{KeyspaceId, PartitionId};

use super::{AppliedCommand, ControlState};
use crate::command::{CommandOutcome, CommandRefusal, CommandRequest, CommandResult, ControlCommand, Entry};
use crate::planted::{self, Bug};

/// The decision about a request before the map changes.
enum BatchDecision {
    /// The request has been applied before, with this outcome.
    Known(CommandOutcome),
    /// The request is in the entry twice.
    Twice,
    /// The new epoch of its group, or why nothing changes.
    New(Result<u64, CommandRefusal>),
}

type BatchGroups = BTreeMap<(KeyspaceId, PartitionId), ReplicaGroup>;

impl ControlState {
    /// Applies the next entry of the log. Returns the result of each request, in their order. The shared
    /// change of the map is in the result of the first request that has changed it.
    pub fn apply_entry(&mut self, entry: &Entry) -> Vec<AppliedCommand> {
        match entry {
            Entry::One(request) => vec![self.apply(request)],
            Entry::Batch(requests) => self.apply_batch(requests),
        }
    }

    /// All requests that are not refused change the map once. Each sees the groups as changed by the requests
    /// before it.
    fn apply_batch(&mut self, requests: &[CommandRequest]) -> Vec<AppliedCommand> {
        let (mut groups, mut seen) = (BatchGroups::new(), BTreeSet::new());
        let mut decided = Vec::with_capacity(requests.len());
        for request in requests {
            decided.push(match self.known(request) {
                Some(outcome) => BatchDecision::Known(outcome),
                None if !seen.insert(request.id) => BatchDecision::Twice,
                None => BatchDecision::New(self.regroup_in(&mut groups, &request.command)),
            });
        }
        let set = groups.into_iter().map(|((keyspace, partition), group)| MapChange::SetGroup {
            keyspace,
            partition,
            group,
        });
        // A change that the map refuses as a whole, because the map would be too large, may fit in part.
        let changed = self.change(set.collect());
        let is_refused = changed.is_err();
        let delta = changed.unwrap_or_default();
        if let Some(delta) = &delta {
            self.update_primary_reports(delta);
            self.drop_ended_recoveries();
        }
        let (epoch, mut first) = (self.map().epoch(), delta);
        let mut applied = Vec::with_capacity(requests.len());
        for (request, decided) in requests.iter().zip(decided) {
            applied.push(match decided {
                BatchDecision::Known(outcome) => AppliedCommand::repeated(outcome),
                BatchDecision::Twice => self.apply(request),
                BatchDecision::New(_) if is_refused => self.apply_new(request),
                BatchDecision::New(result) => {
                    let delta = if result.is_ok() { first.take() } else { None };
                    if result.is_ok() {
                        self.drop_void_pins(&request.command);
                    }
                    let result = result.map(|number| CommandResult { number, epoch });
                    let outcome = self.requests.remember(request.id, result);
                    AppliedCommand { outcome, delta, possible_losses: Vec::new(), repeated: false }
                }
            });
        }
        applied
    }

    /// Decides one request and records the resulting group. Returns the group's new epoch.
    fn regroup_in(&self, groups: &mut BatchGroups, command: &ControlCommand) -> Result<u64, CommandRefusal> {
        // Entries with any other command are not decoded.
        let ControlCommand::Regroup(regroup) = command else { return Err(CommandRefusal::NotControl) };
        let place = (regroup.keyspace, regroup.partition);
        let group = self.regrouped(regroup, groups.get(&place))?;
        let epoch = group.epoch.get();
        groups.insert(place, group);
        Ok(epoch)
    }

    /// The outcome of a request that must not be applied (again).
    pub(super) fn known(&self, request: &CommandRequest) -> Option<CommandOutcome> {
        if planted::is_planted(Bug::RetryAppliedTwice) {
            return None;
        }
        self.requests.known(request)
    }
}

#[cfg(test)]
mod tests {
    use zerohop_placement::{Address, Group, KeyspaceConfig, MapDelta, PartitionCount};
    use zerohop_wire::ids::{Incarnation, InstanceId, PartitionEpoch};

    use super::*;
    use crate::command::{GroupStep, JoinNode, Regroup, RegroupOrigin, RequestId};

    const KEYSPACE: KeyspaceId = KeyspaceId(1);
    const INCARNATION: Incarnation = Incarnation(1);

    fn request(number: u64, command: ControlCommand) -> CommandRequest {
        CommandRequest { id: RequestId { origin: 1, number }, after: 0, command }
    }

    /// Nodes with so many instances each, and 16 partitions with two copies in sync.
    fn state(nodes: u32, instances: u16) -> ControlState {
        let mut state = ControlState::new(Vec::new());
        let mut done = |number, command| {
            let applied = state.apply(&request(number, command));
            applied.outcome.result.expect("is done");
        };
        for at in 0..nodes {
            let address = |port| Address::new(&format!("n{at}:{port}")).expect("is an address");
            done(
                u64::from(at),
                ControlCommand::Join(JoinNode {
                    node: None,
                    replaces: Incarnation(0),
                    incarnation: INCARNATION,
                    manager: address(1),
                    instances: (0..instances).map(|instance| address(2 + instance)).collect(),
                    domain: at,
                    capacity: 1,
                    intact: true,
                    closed: false,
                }),
            );
        }
        let partitions = PartitionCount::new(16).expect("is a power of two");
        let config = KeyspaceConfig::new("papers".parse().expect("is a name"), 5);
        done(100, ControlCommand::CreateKeyspace(KeyspaceConfig { partitions, ..config }));
        state
    }

    fn group(state: &ControlState, partition: u32) -> Group<'_> {
        let keyspace = state.map().keyspace(KEYSPACE).expect("is there");
        keyspace.group(PartitionId(partition)).expect("is there")
    }

    fn raise_epoch_request(state: &ControlState, number: u64, partition: u32) -> CommandRequest {
        let group = group(state, partition);
        let by = RegroupOrigin::Instance(group.primary, INCARNATION);
        regroup(number, partition, group.epoch, by, GroupStep::RaiseEpoch)
    }

    fn regroup(
        number: u64,
        partition: u32,
        epoch: PartitionEpoch,
        by: RegroupOrigin,
        step: GroupStep,
    ) -> CommandRequest {
        let partition = PartitionId(partition);
        request(number, ControlCommand::Regroup(Regroup { keyspace: KEYSPACE, partition, epoch, by, step }))
    }

    fn deltas(applied: &[AppliedCommand]) -> Vec<&MapDelta> {
        applied.iter().filter_map(|one| one.delta.as_deref()).collect()
    }

    #[test]
    fn batch_raises_map_epoch_once_and_each_partition_epoch_once() {
        let mut state = state(3, 1);
        let (before, mark) = (state.map().clone(), state.applied_count());
        let requests: Vec<CommandRequest> =
            (0..16).map(|at| raise_epoch_request(&state, 200 + u64::from(at), at)).collect();
        let applied = state.apply_entry(&Entry::Batch(requests));
        assert_eq!(state.map().epoch(), before.epoch().next());
        assert_eq!(deltas(&applied).len(), 1);
        assert_eq!(before.apply(deltas(&applied)[0]).as_ref(), Ok(&**state.map()));
        for (at, one) in (0..).zip(&applied) {
            let (old, new) = (before.keyspace(KEYSPACE).expect("is there"), group(&state, at));
            assert_eq!(new.epoch, old.group(PartitionId(at)).expect("is there").epoch.next());
            let done = CommandResult { number: new.epoch.get(), epoch: state.map().epoch() };
            assert_eq!(
                one.outcome,
                CommandOutcome { result: Ok(done), applied_count: mark + 1 + u64::from(at) }
            );
        }
        assert!(ControlState::decode(&state.encode()).expect("is a state") == state);
    }

    #[test]
    fn refused_request_does_not_affect_others_of_its_batch() {
        let mut state = state(3, 1);
        let epoch = state.map().epoch();
        let (stale, by) = (group(&state, 1), RegroupOrigin::Instance(group(&state, 1).primary, INCARNATION));
        let stale = regroup(201, 1, PartitionEpoch(stale.epoch.get() + 7), by, GroupStep::RaiseEpoch);
        let unknown = regroup(202, 99, PartitionEpoch(1), RegroupOrigin::Control, GroupStep::RaiseEpoch);
        let requests =
            vec![stale, raise_epoch_request(&state, 203, 0), unknown, raise_epoch_request(&state, 204, 2)];
        let old = group(&state, 1).epoch;
        let applied = state.apply_entry(&Entry::Batch(requests));
        let results: Vec<_> = applied.iter().map(|one| one.outcome.result.clone()).collect();
        assert_eq!(results[0], Err(CommandRefusal::StaleEpoch { now: old }));
        assert_eq!(results[2], Err(CommandRefusal::UnknownPartition));
        assert!(results[1].is_ok() && results[3].is_ok());
        assert_eq!(state.map().epoch(), epoch.next());
        assert_eq!(group(&state, 1).epoch, old);
        // A batch of refusals alone does not change the map.
        let again: Vec<CommandRequest> =
            [0, 2].map(|at| raise_epoch_request(&state, 300 + u64::from(at), at)).to_vec();
        let first = state.apply_entry(&Entry::Batch(again.clone()));
        let epoch = state.map().epoch();
        // A retry in another batch gets the first outcome.
        let second = state.apply_entry(&Entry::Batch(again));
        assert!(second.iter().all(|one| one.repeated && one.delta.is_none()));
        for (one, other) in first.iter().zip(&second) {
            assert_eq!(one.outcome, other.outcome);
        }
        assert_eq!(state.map().epoch(), epoch);
    }

    #[test]
    fn second_change_of_a_group_in_a_batch_sees_the_first() {
        let mut state = state(3, 1);
        let (one, other) = (raise_epoch_request(&state, 200, 0), raise_epoch_request(&state, 201, 0));
        let applied = state.apply_entry(&Entry::Batch(vec![one.clone(), other, one]));
        let now = group(&state, 0).epoch;
        assert!(applied[0].outcome.result.is_ok());
        assert_eq!(applied[1].outcome.result, Err(CommandRefusal::StaleEpoch { now }));
        assert_eq!((applied[2].repeated, &applied[2].outcome), (true, &applied[0].outcome));
        // The second change applies to the result of the first; both are done in one epoch of the map.
        let epoch = state.map().epoch();
        let first = raise_epoch_request(&state, 202, 0);
        let by = RegroupOrigin::Instance(group(&state, 0).primary, INCARNATION);
        let second = regroup(203, 0, now.next(), by, GroupStep::RaiseEpoch);
        let applied = state.apply_entry(&Entry::Batch(vec![first, second]));
        assert!(applied.iter().all(|one| one.outcome.result.is_ok()));
        assert_eq!(group(&state, 0).epoch, now.next().next());
        assert_eq!((state.map().epoch(), deltas(&applied).len()), (epoch.next(), 1));
    }

    #[test]
    fn batch_refused_by_the_map_is_applied_request_by_request() {
        let mut state = state(1, 20);
        let add = |state: &ControlState, number, instance| {
            let step = GroupStep::AddFollower { instance: InstanceId(instance), target: false };
            regroup(number, 0, group(state, 0).epoch, RegroupOrigin::Control, step)
        };
        let mut number = 200;
        while group(&state, 0).members().count() < 16 {
            number += 1;
            let is_member = |one: &u32| group(&state, 0).members().any(|member| member.get() == *one);
            let instance = (0..20).find(|one| !is_member(one)).expect("is one");
            let added = add(&state, number, instance);
            state.apply(&added).outcome.result.expect("is added");
        }
        let is_member = |one: &u32| group(&state, 0).members().any(|member| member.get() == *one);
        let too_much = add(&state, 400, (0..20).find(|one| !is_member(one)).expect("is one"));
        let requests =
            vec![raise_epoch_request(&state, 401, 1), too_much, raise_epoch_request(&state, 402, 2)];
        let applied = state.apply_entry(&Entry::Batch(requests));
        assert!(matches!(applied[1].outcome.result, Err(CommandRefusal::Map(_))), "{:?}", applied[1].outcome);
        assert!(applied[0].outcome.result.is_ok() && applied[2].outcome.result.is_ok());
        assert_eq!(deltas(&applied).len(), 2);
        assert_eq!(group(&state, 0).members().count(), 16);
    }
}
