//! The state that a member of a group passes on in a split: each child is a member of its own group, with the same log.

use std::collections::BTreeSet;

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineResult};
use zerohop_partition::{InheritedHistory, InheritedReplies};
use zerohop_placement::ChangeHistory;
use zerohop_wire::Failure;
use zerohop_wire::ids::{InstanceId, PartitionEpoch};

use super::limits::RETAINED_REPLY_US;
use super::{Context, GroupView, Replica, ReplicaEffects, Role, failed};

/// The state that children need beside their log.
#[derive(Debug, Clone)]
pub struct InheritedState {
    /// The log index of the state.
    pub applied: u64,
    /// The encoded state.
    pub state: Vec<u8>,
    /// Whether the log does not represent the state, is intact, or has corruption.
    needs_state: bool,
    is_intact: bool,
    has_corruption: bool,
    /// The parent's group.
    view: GroupView,
    former_primaries: BTreeSet<InstanceId>,
    has_unknown_former_primaries: bool,
    /// Replies that wait for the fate of the last entries. Each child gets a clone: [`InheritedReplies::share_among`].
    pub replies: InheritedReplies,
    /// The changes that the parent keeps for readers.
    history: Option<InheritedHistory>,
    /// See [`InheritedState::follows_at_once`].
    born_in: Option<PartitionEpoch>,
}

impl InheritedState {
    /// The split is the very next change of the group that this member knows, so no primary in between is unknown. Children start
    /// in this epoch. A child that is opened in a later epoch has missed some changes.
    pub fn follows_at_once(&mut self, children: PartitionEpoch) {
        self.born_in = Some(children);
    }

    /// The epoch of the parent's group.
    pub fn epoch(&self) -> PartitionEpoch {
        self.view.epoch
    }
}

impl Replica {
    /// Ends as a partition that is split. Waiting requests are answered with this failure, and their clients turn to the
    /// children. The replies of atomic batches that are in the log go to the children.
    pub fn end_by_split<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        failure: &Failure<'static>,
        effects: &mut dyn ReplicaEffects,
    ) -> InheritedState {
        let replies = self.partition.step_down_for_split(failure, effects);
        while let Some(one) = self.lead.wait_queue.take_first(|_| true) {
            effects.answer(one.token, &failed(failure.clone()));
        }
        let has_settled = self.role == Role::Primary
            && self.lead.epoch_marker <= self.partition.applied()
            && self.has_waited(context.now_us);
        let mut former = std::mem::take(&mut self.former.instances);
        if has_settled {
            former.clear();
        }
        // If this replica was promoted and still waits for these older primaries, its successor must wait for them too.
        former.extend(self.unwaited(context.now_us));
        InheritedState {
            applied: self.partition.applied(),
            state: self.partition.state().encode(),
            needs_state: self.health.needs_state
                || self.follow.snapshot_install.is_some()
                || self.health.broken.is_some(),
            is_intact: self.health.is_intact,
            has_corruption: self.health.has_corruption,
            view: self.view.clone(),
            former_primaries: former,
            has_unknown_former_primaries: self.former.has_unknown && !has_settled,
            replies,
            history: self.partition.history(),
            born_in: None,
        }
    }

    /// Adopts the parent's inherited state, before the map's group is set. `now_us` is the time of the monotonic clock, in
    /// microseconds.
    pub fn inherit(&mut self, inherited: &InheritedState, epoch: PartitionEpoch, now_us: u64) {
        if !inherited.replies.is_empty() {
            self.partition.adopt_replies(inherited.replies.clone(), now_us + RETAINED_REPLY_US);
        }
        if let Some(history) = &inherited.history {
            self.partition.adopt_history(history.clone());
        }
        self.health.needs_state |= inherited.needs_state;
        self.health.is_intact &= inherited.is_intact;
        self.health.has_corruption |= inherited.has_corruption;
        if inherited.born_in == Some(epoch) && inherited.view.epoch.0 != 0 {
            // The parent's group counts as this partition's previous group. Its primary, unless it is this member, may not know
            // of the split yet.
            self.former.instances.clone_from(&inherited.former_primaries);
            self.former.has_unknown = inherited.has_unknown_former_primaries;
            self.view = GroupView { epoch: PartitionEpoch(epoch.0 - 1), ..inherited.view.clone() };
        }
    }

    /// Keeps changes for readers that watch the keyspace, before the parent's state is inherited.
    pub fn begin_history(&mut self, limits: ChangeHistory) {
        self.partition.begin_history(limits);
    }

    /// See [`zerohop_partition::Partition::alter_history`].
    pub(crate) fn alter_history<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        limits: ChangeHistory,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        match self.health.broken {
            Some(_) => Ok(()),
            None => self.partition.alter_history(engine, limits, effects),
        }
    }

    /// Sets the hash range whose keys belong to the partition.
    pub fn set_hash_range(&mut self, hash_range: zerohop_partition::HashRange) {
        self.partition.set_hash_range(hash_range);
    }
}
