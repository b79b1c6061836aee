//! What a member of a group that is split hands down: each daughter is a member of a group of its own, with the same log.

use std::collections::BTreeSet;

use zerohop_engine::disk::Disk;
use zerohop_wire::Failure;
use zerohop_wire::ids::{InstanceId, PartitionEpoch};

use super::{Context, Effects, Replica, Role, View, failed};

/// What daughters must know beside their log.
#[derive(Debug, Clone)]
pub(crate) struct Bequest {
    /// The log index that the state is as of, and the state.
    pub(crate) applied: u64,
    pub(crate) state: Vec<u8>,
    /// The log does not stand for the state, is damaged, has rot.
    needs_state: bool,
    is_intact: bool,
    has_rot: bool,
    /// The group that it was in.
    view: View,
    former: BTreeSet<InstanceId>,
    has_unknown_former: bool,
    /// See [`Bequest::follows_at_once`].
    born_in: Option<PartitionEpoch>,
}

impl Bequest {
    /// The split is the very next change of the group that was told: no primary in between is unknown. Daughters begin in this
    /// epoch; whoever is opened in a later one has missed some.
    pub(crate) fn follows_at_once(&mut self, daughters: PartitionEpoch) {
        self.born_in = Some(daughters);
    }

    /// The epoch of the group that it was in.
    pub(crate) fn epoch(&self) -> PartitionEpoch {
        self.view.epoch
    }
}

impl Replica {
    /// Ends as a partition that is split: whoever waits is answered so, and asks the daughters.
    pub(crate) fn bequeath<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        failure: &Failure<'static>,
        effects: &mut dyn Effects,
    ) -> Bequest {
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
        Bequest {
            applied: self.partition.applied(),
            state: self.partition.state().encode(),
            needs_state: self.needs_state || self.taking.is_some(),
            is_intact: self.is_intact,
            has_rot: self.has_rot,
            view: self.view.clone(),
            former,
            has_unknown_former: self.has_unknown_former && !has_settled,
            born_in: None,
        }
    }

    /// Takes over what the parent handed down, before the map's group is told.
    pub(crate) fn inherit(&mut self, bequest: &Bequest, epoch: PartitionEpoch) {
        self.needs_state |= bequest.needs_state;
        self.is_intact &= bequest.is_intact;
        self.has_rot |= bequest.has_rot;
        if bequest.born_in == Some(epoch) && bequest.view.epoch.0 != 0 {
            // As if the group before had been this partition's: its primary, unless it is this member, may not know yet.
            self.former.clone_from(&bequest.former);
            self.has_unknown_former = bequest.has_unknown_former;
            self.view = View { epoch: PartitionEpoch(epoch.0 - 1), ..bequest.view.clone() };
        }
    }

    /// Says which keys are the partition's own.
    pub(crate) fn set_slice(&mut self, slice: crate::Slice) {
        self.partition.set_slice(slice);
    }
}
