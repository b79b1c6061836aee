//! Partitions that continue with a log whose end may be missing, or with nothing. The record stays until the
//! operator acknowledges it; restarts and new leaders do not remove it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zerohop_placement::{Durability, Group, MapChange, MapDelta, NodeState};
use zerohop_wire::ids::{KeyspaceId, MapEpoch, NodeId, PartitionId};

use super::ControlState;
use crate::command::CommandRefusal;

/// By partition.
pub type Losses = BTreeMap<(KeyspaceId, PartitionId), Loss>;

/// The loss of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The map in which the partition continues; the last one if this happened several times.
    pub epoch: MapEpoch,
    /// The nodes that may have ended without writing all that they had; if there are none, all nodes that had it.
    pub nodes: BTreeSet<NodeId>,
}

/// A partition that may continue with less data, as it was before that is decided.
#[derive(Debug)]
pub(super) struct LossCandidate {
    place: (KeyspaceId, PartitionId),
    /// The nodes that had it.
    nodes: BTreeSet<NodeId>,
    /// Those of them that had it in sync.
    in_sync: BTreeSet<NodeId>,
    /// Those of them whose copy may have lost its end.
    restarted: BTreeSet<NodeId>,
}

impl ControlState {
    /// The losses that are not acknowledged.
    pub fn losses(&self) -> &Arc<Losses> {
        &self.losses
    }

    /// These partitions with the nodes that have copies of them.
    pub(super) fn loss_candidates(&self, places: &[(KeyspaceId, PartitionId)]) -> Vec<LossCandidate> {
        let map = self.map();
        let owner = |instance| map.instance(instance).map(|found| found.node);
        let candidate = |place: &(KeyspaceId, PartitionId)| {
            let group = map.keyspace(place.0).and_then(|found| found.group(place.1));
            let in_sync =
                |group: Group<'_>| group.members().take(1 + group.in_sync.len()).collect::<Vec<_>>();
            let restarted = self.recoveries.get(place).into_iter().flat_map(|recovery| &recovery.restarted);
            LossCandidate {
                place: *place,
                nodes: group.into_iter().flat_map(|group| group.members()).filter_map(owner).collect(),
                in_sync: group.into_iter().flat_map(in_sync).filter_map(owner).collect(),
                restarted: restarted.copied().filter_map(owner).collect(),
            }
        };
        places.iter().map(candidate).collect()
    }

    /// Records that partitions which these nodes had continue with less data. A keyspace in memory is empty
    /// after each start: that is no loss if the node was shut down cleanly, because an operator intended it.
    ///
    /// A manager of an earlier program names more nodes. They are only reported: partitions and epochs, on which later
    /// commands depend, are those of every program.
    pub(super) fn record_losses(&mut self, candidates: Vec<LossCandidate>) {
        for LossCandidate { place, mut nodes, in_sync, restarted } in candidates {
            let map = Arc::clone(self.map());
            let Some(found) = map.keyspace(place.0) else { continue };
            let is_up = |node: &NodeId| map.node(*node).is_some_and(|node| node.state() != NodeState::Down);
            let is_clean = |node: &NodeId| is_up(node) && self.facts(*node).closed;
            let is_in_memory = found.config().durability == Durability::Memory;
            // A clean shutdown does not repair a log that had lost its end before.
            let is_doubted = |node: &NodeId| !is_clean(node) || (!is_in_memory && restarted.contains(node));
            if is_in_memory {
                nodes.retain(is_doubted);
                if nodes.is_empty() {
                    continue;
                }
            }
            // How a node that is down has ended is not known. One out of sync lacks what others acknowledged without it.
            let is_named = |node: &&NodeId| is_doubted(node) && (is_up(node) || in_sync.contains(*node));
            let named: BTreeSet<NodeId> = nodes.iter().filter(is_named).copied().collect();
            if !named.is_empty() {
                nodes = named;
            }
            let loss = Arc::make_mut(&mut self.losses).entry(place);
            let loss = loss.or_insert_with(|| Loss { epoch: MapEpoch(0), nodes: BTreeSet::new() });
            loss.epoch = map.epoch();
            loss.nodes.append(&mut nodes);
        }
    }

    /// The operator acknowledges losses up to the map that the operator has seen; later losses stay.
    pub(super) fn acknowledge_losses(
        &mut self,
        keyspace: KeyspaceId,
        until: MapEpoch,
    ) -> Result<u64, CommandRefusal> {
        if keyspace != KeyspaceId::NONE && self.map().keyspace(keyspace).is_none() {
            return Err(CommandRefusal::UnknownKeyspace);
        }
        let is_known = |(of, _): &(KeyspaceId, PartitionId), loss: &Loss| {
            (keyspace == KeyspaceId::NONE || *of == keyspace) && loss.epoch <= until
        };
        let count = self.losses.iter().filter(|(place, loss)| is_known(place, loss)).count();
        if count > 0 {
            Arc::make_mut(&mut self.losses).retain(|place, loss| !is_known(place, loss));
        }
        Ok(count as u64)
    }

    /// The children of a region have the losses of their parent.
    fn pass_on_loss(&mut self, keyspace: KeyspaceId, region: PartitionId) {
        let map = Arc::clone(self.map());
        let Some(found) = map.keyspace(keyspace).filter(|_| self.losses.contains_key(&(keyspace, region)))
        else {
            return;
        };
        let losses = Arc::make_mut(&mut self.losses);
        let Some(loss) = losses.remove(&(keyspace, region)) else { return };
        for child in found.division().descendants(region) {
            losses.insert((keyspace, child), loss.clone());
        }
    }

    /// The map has changed: keyspaces may be dropped, or split.
    pub(super) fn update_losses(&mut self, delta: &MapDelta) {
        for change in &delta.changes {
            if let MapChange::SplitRegion { keyspace, region, .. } = change {
                self.pass_on_loss(*keyspace, *region);
                continue;
            }
            let (MapChange::DropKeyspace(id) | MapChange::SplitKeyspace(id)) = change else { continue };
            let gone: Vec<(PartitionId, Loss)> = self
                .losses
                .iter()
                .filter(|((keyspace, _), _)| keyspace == id)
                .map(|((_, partition), loss)| (*partition, loss.clone()))
                .collect();
            if gone.is_empty() {
                continue;
            }
            let losses = Arc::make_mut(&mut self.losses);
            losses.retain(|(keyspace, _), _| keyspace != id);
            if matches!(change, MapChange::SplitKeyspace(_)) {
                for (PartitionId(parent), loss) in gone {
                    for child in [2 * parent, 2 * parent + 1] {
                        losses.insert((*id, PartitionId(child)), loss.clone());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use zerohop_placement::{Address, KeyspaceConfig, PartitionCount};
    use zerohop_wire::ids::{Incarnation, LogIndex};

    use super::*;
    use crate::command::{
        CommandRequest, CommandResult, ControlCommand, JoinNode, LogEnd, LogIndexReport, LogReport, RequestId,
    };

    const KEYSPACE: KeyspaceId = KeyspaceId(1);

    struct Bench(ControlState);

    impl Bench {
        /// Two nodes of one instance, and a keyspace of two partitions on both.
        fn new(durability: Durability) -> Bench {
            let mut bench = Bench(ControlState::new(Vec::new()));
            bench.join(1, None, 0, false);
            bench.join(2, None, 0, false);
            let partitions = PartitionCount::new(2).unwrap();
            let config = KeyspaceConfig::new("papers".parse().unwrap(), 5);
            let config = KeyspaceConfig { partitions, durability, replicas: 2, min_in_sync: 2, ..config };
            bench.done(ControlCommand::CreateKeyspace(config));
            bench
        }

        fn apply_command(&mut self, command: ControlCommand) -> Result<CommandResult, CommandRefusal> {
            let id = RequestId { origin: 1, number: self.0.applied_count() + 1 };
            let applied = self.0.apply(&CommandRequest { id, after: self.0.applied_count(), command });
            // A manager that restarts has all of it.
            assert_eq!(ControlState::decode(&self.0.encode()).unwrap(), self.0);
            applied.outcome.result
        }

        fn done(&mut self, command: ControlCommand) -> u64 {
            self.apply_command(command).unwrap().number
        }

        fn join(&mut self, node: u32, known: Option<NodeId>, replaces: u64, closed: bool) {
            let address = |port: u32| Address::new(&format!("n{node}:{port}")).unwrap();
            self.done(ControlCommand::Join(JoinNode {
                node: known,
                replaces: Incarnation(replaces),
                incarnation: Incarnation(replaces + 1),
                manager: address(1),
                instances: vec![address(2)],
                domain: node,
                capacity: 1,
                intact: true,
                closed,
            }));
        }

        fn rejoin(&mut self, node: u32, closed: bool) {
            let replaces = self.0.map().node(NodeId(node)).unwrap().incarnation().get();
            self.join(node, Some(NodeId(node)), replaces, closed);
        }

        /// Both nodes restart and report their logs, which may lack acknowledged writes.
        fn restart(&mut self, closed: [bool; 2]) {
            for (node, closed) in [1, 2].into_iter().zip(closed) {
                self.rejoin(node, closed);
            }
            self.report_logs(1);
            self.report_logs(2);
            assert!(self.0.recoveries().is_empty(), "both partitions go on");
        }

        /// A node reports its logs of all partitions that recover.
        fn report_logs(&mut self, node: u32) {
            let found = self.0.map().node(NodeId(node)).unwrap();
            let (instance, incarnation) = (found.instances().next().unwrap().id, found.incarnation());
            let log = |((keyspace, partition), _): (&(KeyspaceId, PartitionId), _)| LogReport {
                keyspace: *keyspace,
                partition: *partition,
                epoch: self.0.map().keyspace(*keyspace).unwrap().group(*partition).unwrap().epoch,
                instance,
                end: LogEnd { epoch: 1, index: LogIndex(7) },
                intact: true,
            };
            let logs = self.0.recoveries().iter().map(log).collect();
            self.done(ControlCommand::ReportLogs(LogIndexReport { node: NodeId(node), incarnation, logs }));
        }

        /// The partitions with a loss, and the nodes of the first.
        fn lost_partitions(&self) -> (Vec<u32>, Vec<u32>) {
            let losses = self.0.losses();
            let nodes =
                losses.values().next().into_iter().flat_map(|loss| &loss.nodes).map(|node| node.get());
            (losses.keys().map(|(_, partition)| partition.get()).collect(), nodes.collect())
        }
    }

    #[test]
    fn possible_loss_is_kept_until_acknowledged_and_later_loss_is_new() {
        let mut bench = Bench::new(Durability::Interval { ms: 100 });
        bench.restart([false, false]);
        assert_eq!(bench.lost_partitions(), (vec![0, 1], vec![1, 2]));
        let seen = bench.0.map().epoch();
        bench.restart([false, false]);
        let acknowledge = |until| ControlCommand::AcknowledgeLosses { keyspace: KEYSPACE, until };
        assert_eq!(bench.done(acknowledge(seen)), 0, "both went on with less again since it was seen");
        let seen = bench.0.map().epoch();
        let other = ControlCommand::AcknowledgeLosses { keyspace: KeyspaceId(9), until: seen };
        assert_eq!(bench.apply_command(other), Err(CommandRefusal::UnknownKeyspace));
        assert_eq!(bench.done(acknowledge(seen)), 2);
        assert_eq!(bench.lost_partitions(), (vec![], vec![]));
        assert_eq!(bench.done(acknowledge(seen)), 0);
        bench.restart([false, false]);
        assert_eq!(bench.lost_partitions().0, [0, 1]);
        let all =
            ControlCommand::AcknowledgeLosses { keyspace: KeyspaceId::NONE, until: bench.0.map().epoch() };
        assert_eq!(bench.done(all), 2);
    }

    #[test]
    fn loss_is_dropped_with_keyspace_and_reported_for_both_children() {
        let mut bench = Bench::new(Durability::Interval { ms: 100 });
        bench.restart([false, false]);
        bench.done(ControlCommand::SplitKeyspace(KEYSPACE));
        assert_eq!(bench.lost_partitions().0, [0, 1, 2, 3]);
        bench.done(ControlCommand::DropKeyspace(KEYSPACE));
        assert_eq!(bench.lost_partitions(), (vec![], vec![]));
    }

    #[test]
    fn memory_partitions_are_lost_only_on_nodes_without_clean_stop() {
        for (closed, nodes) in [([true, true], vec![]), ([true, false], vec![2]), ([false, true], vec![1])] {
            let mut bench = Bench::new(Durability::Memory);
            bench.restart(closed);
            assert_eq!(bench.lost_partitions().1, nodes, "{closed:?}");
        }
    }

    #[test]
    fn follower_that_was_stopped_cleanly_is_not_named() {
        for (closed, nodes) in [(true, vec![2]), (false, vec![1, 2])] {
            let mut bench = Bench::new(Durability::Interval { ms: 100 });
            // Node 2 has all partitions alone, and node 1 follows.
            bench.rejoin(1, false);
            bench.restart([closed, false]);
            assert_eq!(bench.lost_partitions(), (vec![0, 1], nodes));
        }
    }

    #[test]
    fn follower_that_is_down_is_not_named() {
        let mut bench = Bench::new(Durability::Interval { ms: 100 });
        let incarnation = bench.0.map().node(NodeId(1)).unwrap().incarnation();
        bench.done(ControlCommand::SetNodeState { node: NodeId(1), incarnation, state: NodeState::Down });
        bench.rejoin(2, false);
        bench.report_logs(2);
        assert_eq!(bench.lost_partitions(), (vec![0, 1], vec![2]));
    }
}
