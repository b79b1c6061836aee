//! The state that the control group agrees on: the cluster map, and data that only the control group needs.
//! Commands are applied in the order of the log. Every manager reaches the same state, as nothing here
//! depends on anything else.
//!
//! ```text
//!   Request ──▶ requests.rs: done before? ──▶ nodes.rs       ┐
//!                                             keyspaces.rs   ├──▶ changes ──▶ the map of the next epoch, Outcome
//!                                             groups.rs      │
//!                                             recovery.rs    │
//!                                             placement_overrides.rs │
//!                                             primary_reports.rs │
//!                                             losses.rs      │
//!                                             tokens.rs      ┘
//! ```
//!
//! `batch.rs` turns an entry with several changes of groups into one change of the map.

use std::collections::BTreeMap;
use std::sync::Arc;

use zerohop_placement::{Address, ClusterMap, MapChange, MapDelta, MapHistory, NodeState, PendingSplit};
use zerohop_wire::ids::{InstanceId, KeyspaceId, NodeId, PartitionId};

use crate::command::{
    CommandOutcome, CommandRefusal, CommandRequest, CommandResult, ControlCommand, ManagerInfo, RegionSplit,
};
use crate::limits::MANAGERS_MAX;

mod batch;
mod force_new_cluster;
mod group_decision;
mod groups;
mod keyspaces;
mod losses;
mod nodes;
mod placement_overrides;
mod primary_reports;
mod recovery;
mod requests;
mod ring;
mod snapshot;
#[cfg(test)]
mod tests;
mod tokens;

pub use group_decision::Recovery;
pub use losses::{Loss, Losses};
pub use placement_overrides::PlacementOverride;
pub use primary_reports::PrimaryReports;
pub(crate) use ring::instance_weight;
pub use ring::{Ring, RingPoint};
pub use snapshot::StateError;

use requests::Requests;
use tokens::put_token;

/// Data about a node that only the control group needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeRecord {
    /// The node's failure domain.
    pub domain: u32,
    /// Its capacity, relative to others; at least 1.
    pub capacity: u32,
    /// Whether the operator wants it drained, whatever its present state.
    pub draining: bool,
    /// A new cluster was forced since the start of this node. A decision that removed it from groups may be
    /// lost, so that a clean shutdown does not count.
    pub unconfirmed: bool,
    /// The start before its present one was shut down cleanly, so that the loss of its data in memory was
    /// intended.
    pub closed: bool,
}

/// The replicated state.
#[derive(Clone, Debug)]
pub struct ControlState {
    history: MapHistory,
    facts: BTreeMap<NodeId, NodeRecord>,
    managers: Vec<ManagerInfo>,
    recoveries: BTreeMap<(KeyspaceId, PartitionId), Recovery>,
    placement_overrides: BTreeMap<(KeyspaceId, PartitionId), PlacementOverride>,
    primary_reports: BTreeMap<KeyspaceId, PrimaryReports>,
    losses: Arc<Losses>,
    requests: Requests,
    /// Ids are never reused, so the next ones are stored apart from the map.
    next_keyspace: u32,
    next_node: u32,
    next_instance: u32,
    /// Nodes of the first list of hosts that have not joined yet: the address of each node's manager, and the
    /// number that the node gets.
    expected_nodes: BTreeMap<Address, NodeId>,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct AppliedCommand {
    /// The answer for the requester.
    pub outcome: CommandOutcome,
    /// How the map changed, if it did.
    pub delta: Option<Arc<MapDelta>>,
    /// Partitions that continue with a log whose end may be missing, as all members that had it have
    /// restarted.
    pub possible_losses: Vec<(KeyspaceId, PartitionId)>,
    /// Whether this was a retry, answered from memory.
    pub repeated: bool,
}

impl AppliedCommand {
    fn repeated(outcome: CommandOutcome) -> AppliedCommand {
        AppliedCommand { outcome, delta: None, possible_losses: Vec::new(), repeated: true }
    }
}

/// Changes of the map that belong to one command.
#[derive(Debug, Default)]
struct MapDraft {
    changes: Vec<MapChange>,
    possible_losses: Vec<(KeyspaceId, PartitionId)>,
}

impl ControlState {
    /// A state with nothing but the managers.
    pub fn new(managers: Vec<ManagerInfo>) -> ControlState {
        ControlState {
            history: MapHistory::default(),
            facts: BTreeMap::new(),
            managers,
            recoveries: BTreeMap::new(),
            placement_overrides: BTreeMap::new(),
            primary_reports: BTreeMap::new(),
            losses: Arc::default(),
            requests: Requests::default(),
            next_keyspace: 1,
            next_node: 1,
            next_instance: 0,
            expected_nodes: BTreeMap::new(),
        }
    }

    /// The same, where the nodes of this list get the numbers of their places in it, from 1 on, in whatever
    /// order they join.
    #[must_use]
    pub fn with_expected_nodes(self, places: &[Address]) -> ControlState {
        let places: BTreeMap<Address, NodeId> = places.iter().cloned().zip((1..).map(NodeId)).collect();
        let next_node = places.values().map(|node| node.get() + 1).max().unwrap_or(1);
        ControlState { expected_nodes: places, next_node, ..self }
    }

    /// The map.
    pub fn map(&self) -> &Arc<ClusterMap> {
        self.history.map()
    }

    /// The map and its recent changes.
    pub fn history(&self) -> &MapHistory {
        &self.history
    }

    /// The facts about a node.
    pub fn facts(&self, node: NodeId) -> NodeRecord {
        self.facts.get(&node).copied().unwrap_or(NodeRecord {
            domain: node.get(),
            capacity: 1,
            draining: false,
            unconfirmed: false,
            closed: false,
        })
    }

    /// The members that the control group should have.
    pub fn managers(&self) -> &[ManagerInfo] {
        &self.managers
    }

    /// The partitions whose groups are recovering.
    pub fn recoveries(&self) -> &BTreeMap<(KeyspaceId, PartitionId), Recovery> {
        &self.recoveries
    }

    /// The number of commands applied.
    pub fn applied_count(&self) -> u64 {
        self.requests.applied_count()
    }

    /// Applies the next command of the log.
    pub fn apply(&mut self, request: &CommandRequest) -> AppliedCommand {
        if let Some(outcome) = self.known(request) {
            return AppliedCommand::repeated(outcome);
        }
        self.apply_new(request)
    }

    /// Applies a command that has not been applied before.
    fn apply_new(&mut self, request: &CommandRequest) -> AppliedCommand {
        let mut draft = MapDraft::default();
        let before = (self.next_keyspace, self.next_node, self.next_instance);
        let done = self.apply_command(&request.command, &mut draft);
        let may_have_lost = std::mem::take(&mut draft.possible_losses);
        let candidates = self.loss_candidates(&may_have_lost);
        let committed = done.and_then(|number| Ok((number, self.change(draft.changes)?)));
        let (result, delta) = match committed {
            Ok((number, delta)) => (Ok(CommandResult { number, epoch: self.map().epoch() }), delta),
            Err(refusal) => {
                (self.next_keyspace, self.next_node, self.next_instance) = before;
                (Err(refusal), None)
            }
        };
        let may_have_lost = if result.is_ok() { may_have_lost } else { Vec::new() };
        self.drop_ended_recoveries();
        if let Some(delta) = &delta {
            self.update_primary_reports(delta);
            self.drop_split_pins(delta);
            self.update_losses(delta);
        }
        if result.is_ok() {
            self.record_losses(candidates);
        }
        if result.is_ok() {
            self.drop_void_pins(&request.command);
        }
        let outcome = self.requests.remember(request.id, result);
        AppliedCommand { outcome, delta, possible_losses: may_have_lost, repeated: false }
    }

    /// Decides the changes. It adds changes of the map to the draft. It may change facts, recoveries and next
    /// ids directly, but only once nothing can be refused any more.
    fn apply_command(
        &mut self,
        command: &ControlCommand,
        draft: &mut MapDraft,
    ) -> Result<u64, CommandRefusal> {
        match command {
            ControlCommand::Join(join) => self.join(join, draft),
            ControlCommand::SetNodeState { node, incarnation, state } => {
                self.set_node_state(*node, *incarnation, *state, draft)
            }
            ControlCommand::RemoveNode(node) => self.remove_node(*node, draft),
            ControlCommand::CreateKeyspace(config) => self.create_keyspace(config, draft),
            ControlCommand::AlterKeyspace(id, config) => self.alter_keyspace(*id, config, draft),
            ControlCommand::DropKeyspace(id) => self.drop_keyspace(*id, draft),
            ControlCommand::BeginDropKeyspace(id) => self.begin_drop_keyspace(*id, draft),
            ControlCommand::Drained(drained) => self.drained(drained, draft),
            ControlCommand::SplitKeyspace(id) => self.split_at_once(*id, &PendingSplit::Keyspace, draft),
            ControlCommand::SplitRegion(RegionSplit { keyspace, region, separator, share }) => {
                let (region, separator) = (*region, separator.clone());
                let split = PendingSplit::Region { region, separator, share: *share };
                self.split_at_once(*keyspace, &split, draft)
            }
            ControlCommand::BeginSplit { keyspace, split } => self.begin_split(*keyspace, split, draft),
            ControlCommand::CancelSplit(id) => self.cancel_split(*id, draft),
            ControlCommand::Regroup(regroup) => self.regroup(regroup, draft),
            ControlCommand::ReportLogs(report) => self.handle_log_reports(report, draft),
            ControlCommand::Recover { keyspace, partition, damaged } => {
                self.recover((*keyspace, *partition), *damaged, draft)
            }
            ControlCommand::AcknowledgeLosses { keyspace, until } => {
                self.acknowledge_losses(*keyspace, *until)
            }
            ControlCommand::Move(request) => self.move_partition(request),
            ControlCommand::PutToken(token) => put_token(token, draft),
            ControlCommand::RemoveToken(id) => {
                draft.changes.push(MapChange::RemoveToken(*id));
                Ok(*id)
            }
            ControlCommand::ExpireToken { token, at_ms } => self.expire_token(*token, *at_ms, draft),
            ControlCommand::SetManagers(managers) => self.set_managers(managers),
        }
    }

    /// The map of the next epoch, if anything changes.
    fn change(&mut self, changes: Vec<MapChange>) -> Result<Option<Arc<MapDelta>>, CommandRefusal> {
        if changes.is_empty() {
            return Ok(None);
        }
        let from = self.map().epoch();
        let delta = MapDelta { from, to: from.next(), changes };
        self.history.push(&delta).map_err(|error| CommandRefusal::Map(error.to_string()))?;
        Ok(Some(Arc::new(delta)))
    }

    fn set_managers(&mut self, managers: &[ManagerInfo]) -> Result<u64, CommandRefusal> {
        let mut ids: Vec<_> = managers.iter().map(|manager| manager.id).collect();
        ids.sort_unstable();
        ids.dedup();
        let each_once = ids.len() == managers.len() && ids.iter().all(|id| id.0 != 0);
        if !each_once || !(1..=MANAGERS_MAX).contains(&managers.len()) {
            return Err(CommandRefusal::Managers);
        }
        self.managers = managers.to_vec();
        Ok(managers.len() as u64)
    }

    /// The decided state of an instance's node; `Down` if there is no node.
    fn state_of(&self, instance: InstanceId) -> NodeState {
        let node = self.map().instance(instance).and_then(|instance| self.map().node(instance.node));
        node.map_or(NodeState::Down, |node| node.state())
    }

    /// Drops the recovery records of groups that no longer recover.
    fn drop_ended_recoveries(&mut self) {
        let map = Arc::clone(self.map());
        self.recoveries.retain(|(keyspace, partition), _| {
            let group = map.keyspace(*keyspace).and_then(|keyspace| keyspace.group(*partition));
            group.is_some_and(|group| group.state == zerohop_placement::GroupState::Recovering)
        });
    }
}

/// Equal states are equal for every manager; the history of the map does not matter.
impl PartialEq for ControlState {
    fn eq(&self, other: &ControlState) -> bool {
        self.map() == other.map()
            && self.facts == other.facts
            && self.managers == other.managers
            && self.recoveries == other.recoveries
            && self.placement_overrides == other.placement_overrides
            && self.primary_reports == other.primary_reports
            && self.losses == other.losses
            && self.requests == other.requests
            && (self.next_keyspace, self.next_node, self.next_instance)
                == (other.next_keyspace, other.next_node, other.next_instance)
    }
}
