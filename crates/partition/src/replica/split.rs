//! What a member of a group that is split hands down: each child is a member of a group of its own, with the same log.

use std::collections::BTreeSet;

use zerohop_engine::disk::Disk;
use zerohop_wire::Failure;
use zerohop_wire::ids::{InstanceId, PartitionEpoch};

use super::{Context, GroupView, Replica, ReplicaEffects, Role, failed};

/// What children must know beside their log.
#[derive(Debug, Clone)]
pub(crate) struct InheritedState {
    /// The log index that the state is as of, and the state.
    pub(crate) applied: u64,
    pub(crate) state: Vec<u8>,
    /// The log does not stand for the state, is damaged, has corruption.
    needs_state: bool,
    is_intact: bool,
    has_corruption: bool,
    /// The group that it was in.
    view: GroupView,
    former: BTreeSet<InstanceId>,
    has_unknown_former: bool,
    /// See [`InheritedState::follows_at_once`].
    born_in: Option<PartitionEpoch>,
}

impl InheritedState {
    /// The split is the very next change of the group that was told: no primary in between is unknown. Children begin in this
    /// epoch; whoever is opened in a later one has missed some.
    pub(crate) fn follows_at_once(&mut self, children: PartitionEpoch) {
        self.born_in = Some(children);
    }

    /// The epoch of the group that it was in.
    pub(crate) fn epoch(&self) -> PartitionEpoch {
        self.view.epoch
    }
}

impl Replica {
    /// Ends as a partition that is split: whoever waits is answered so, and asks the children.
    pub(crate) fn pass_on<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        failure: &Failure<'static>,
        effects: &mut dyn ReplicaEffects,
    ) -> InheritedState {
        self.partition.stand_down(failure, effects);
        while let Some(one) = self.parked.take_first(|_| true) {
            effects.answer(one.token, &failed(failure.clone()));
        }
        let has_settled = self.role == Role::Primary
            && self.mark <= self.partition.applied()
            && self.has_waited(context.now_us);
        let mut former = std::mem::take(&mut self.former);
        if has_settled {
            former.clear();
        }
        // Promoted, it was still waiting for these: so must whoever takes over from it.
        former.extend(self.unwaited(context.now_us));
        InheritedState {
            applied: self.partition.applied(),
            state: self.partition.state().encode(),
            needs_state: self.needs_state || self.taking.is_some(),
            is_intact: self.is_intact,
            has_corruption: self.has_corruption,
            view: self.view.clone(),
            former,
            has_unknown_former: self.has_unknown_former && !has_settled,
            born_in: None,
        }
    }

    /// Takes over what the parent handed down, before the map's group is told.
    pub(crate) fn inherit(&mut self, inherited: &InheritedState, epoch: PartitionEpoch) {
        self.needs_state |= inherited.needs_state;
        self.is_intact &= inherited.is_intact;
        self.has_corruption |= inherited.has_corruption;
        if inherited.born_in == Some(epoch) && inherited.view.epoch.0 != 0 {
            // As if the group before had been this partition's: its primary, unless it is this member, may not know yet.
            self.former.clone_from(&inherited.former);
            self.has_unknown_former = inherited.has_unknown_former;
            self.view = GroupView { epoch: PartitionEpoch(epoch.0 - 1), ..inherited.view.clone() };
        }
    }

    /// Says which keys are the partition's own.
    pub(crate) fn set_slice(&mut self, slice: crate::Slice) {
        self.partition.set_slice(slice);
    }
}
