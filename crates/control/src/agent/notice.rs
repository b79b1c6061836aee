//! Notices for the log file of a node: node failures, takeovers, leaders, a control group that cannot decide.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use zerohop_placement::{Address, ClusterMap, MapChange, MapDelta, NodeState};
use zerohop_wire::ids::{InstanceId, KeyspaceId, NodeId, PartitionId};
use zerohop_wire::plurals::{by_number, counted};

use super::Agent;
use super::cluster_status::ClusterStatus;
use super::own_node::OwnNode;
use zerohop_base::time::Time;

/// Period in which changes of primaries are logged as one line: the groups of one event are decided one after
/// the other.
const TOGETHER_MS: u64 = 500;

/// A notice for the log of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogNotice {
    /// A node that was up in the map is down.
    Down {
        /// The node.
        node: NodeId,
        /// The node of the leader that decided it; `None`: it is not known here.
        by: Option<NodeId>,
        /// That leader is this node.
        is_own: bool,
    },
    /// A node that was down in the map, or that is new, is up.
    Up {
        /// The node.
        node: NodeId,
    },
    /// The control group has another leader.
    LeaderChanged {
        /// The leader's node, if the map has it.
        node: Option<NodeId>,
        /// The leader's address.
        addr: Address,
    },
    /// The control group does not decide.
    QuorumLost(Box<ClusterStatus>),
    /// The control group decides again.
    QuorumBack,
    /// Instances of this node have become primary of partitions, or have ceased to be.
    Primaries {
        /// Number of partitions whose previous primary is on a node that is down.
        promoted: u32,
        /// Those nodes.
        of: Vec<NodeId>,
        /// Number of partitions whose previous primary is up, or that are new.
        handed_over: u32,
        /// Number of partitions that now have their primary on another node.
        moved_away: u32,
    },
    /// A token has expired.
    TokenExpired {
        /// The token's name.
        name: String,
    },
    /// What a start waits for.
    Waits(String),
}

impl LogNotice {
    /// Whether the notice is a warning: a node has failed, or nothing is decided.
    pub fn is_warning(&self) -> bool {
        match self {
            LogNotice::Down { is_own, .. } => *is_own,
            LogNotice::QuorumLost(_) | LogNotice::QuorumBack => true,
            LogNotice::Primaries { promoted, .. } => *promoted > 0,
            LogNotice::Up { .. }
            | LogNotice::LeaderChanged { .. }
            | LogNotice::TokenExpired { .. }
            | LogNotice::Waits(_) => false,
        }
    }
}

impl fmt::Display for LogNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogNotice::Down { node, by: Some(by), .. } => {
                write!(f, "node {node} is down, as node {by}, which leads the control group, has decided")
            }
            LogNotice::Down { node, by: None, .. } => {
                write!(f, "node {node} is down, as the control group has decided")
            }
            LogNotice::Up { node } => write!(f, "node {node} is up"),
            LogNotice::LeaderChanged { node: Some(node), addr } => {
                write!(f, "node {node} at {addr} leads the control group")
            }
            LogNotice::LeaderChanged { node: None, addr } => {
                write!(f, "the node at {addr} leads the control group")
            }
            LogNotice::QuorumLost(status) => write!(
                f,
                "{status}. Nodes that fail are not replaced, and nothing can be changed, until more than half of the managers \
                 return; if they cannot return: `zerohop recover --control-group DIR`"
            ),
            LogNotice::QuorumBack => f.write_str("the control group has a leader again, and decides"),
            LogNotice::Primaries { promoted, of, handed_over, moved_away: given_up } => {
                let mut parts = Vec::new();
                if *promoted > 0 {
                    let of: Vec<String> = of.iter().map(NodeId::to_string).collect();
                    let nodes = by_number(of.len(), "node", "nodes");
                    parts.push(format!(
                        "took over as primary of {} of {nodes} {}",
                        counted(*promoted, "partition"),
                        of.join(", ")
                    ));
                }
                if *handed_over > 0 {
                    parts.push(format!("became primary of {}", counted(*handed_over, "partition")));
                }
                if *given_up > 0 {
                    parts.push(format!("is no longer primary of {}", counted(*given_up, "partition")));
                }
                write!(f, "this node {}", parts.join(", and "))
            }
            LogNotice::TokenExpired { name } => write!(f, "token {name} has expired"),
            LogNotice::Waits(what) => write!(f, "waiting for {what}"),
        }
    }
}

/// Changes of primaries that are not logged yet.
#[derive(Debug, Default)]
pub(super) struct Primaries {
    promoted: BTreeSet<(KeyspaceId, PartitionId)>,
    of: BTreeSet<NodeId>,
    handed_over: BTreeSet<(KeyspaceId, PartitionId)>,
    moved_away: BTreeSet<(KeyspaceId, PartitionId)>,
    due: Option<Time>,
}

impl Agent {
    /// Records the notable parts of a change of the map, or of a new complete map.
    pub(super) fn log_changes(&mut self, before: &Arc<ClusterMap>, delta: Option<&MapDelta>) {
        // Events from before this start are not reported.
        if !self.has_joined() {
            return;
        }
        let map = Arc::clone(self.map());
        let nodes: Vec<NodeId> = match delta.filter(|delta| !delta.is_complete()) {
            None => map.nodes().map(|node| node.id()).collect(),
            Some(delta) => delta
                .changes
                .iter()
                .filter_map(|change| if let MapChange::PutNode(node) = change { Some(node.id) } else { None })
                .collect(),
        };
        let by = self.group.leader_at().and_then(|addr| self.node_at(addr));
        let is_own = self.is_leader();
        let is_down = |map: &ClusterMap, id| map.node(id).map(|node| node.state() == NodeState::Down);
        for node in nodes {
            match (is_down(before, node), is_down(&map, node)) {
                (Some(false), Some(true)) => self.log_notice(super::LogNotice::Down { node, by, is_own }),
                (Some(true) | None, Some(false)) => self.log_notice(super::LogNotice::Up { node }),
                _ => {}
            }
        }
        for change in delta.iter().filter(|delta| !delta.is_complete()).flat_map(|delta| &delta.changes) {
            if let MapChange::PutToken(token) = change
                && token.has_expired()
            {
                self.log_notice(super::LogNotice::TokenExpired { name: token.name.to_string() });
            }
        }
        let Some(own) = self.own else { return };
        let places: Vec<(KeyspaceId, PartitionId)> =
            match delta.filter(|delta| delta.changes.iter().all(is_of_few)) {
                Some(delta) => delta.changes.iter().filter_map(group_of).collect(),
                None => {
                    let of = |(id, keyspace): (KeyspaceId, &zerohop_placement::Keyspace)| {
                        keyspace.groups().map(|(partition, _)| (id, partition)).collect::<Vec<_>>()
                    };
                    map.keyspaces().flat_map(of).collect()
                }
            };
        self.count_primary_changes(&places, own, (before, &map));
    }

    fn count_primary_changes(
        &mut self,
        places: &[(KeyspaceId, PartitionId)],
        own: OwnNode,
        (before, map): (&ClusterMap, &ClusterMap),
    ) {
        let primary_in = |map: &ClusterMap, (keyspace, partition): (KeyspaceId, PartitionId)| {
            map.keyspace(keyspace).and_then(|found| found.group(partition)).map(|group| group.primary)
        };
        let owners: BTreeMap<InstanceId, NodeId> = map
            .nodes()
            .filter(|node| node.state() == NodeState::Down)
            .flat_map(|node| node.instances().map(move |one| (one.id, node.id())).collect::<Vec<_>>())
            .collect();
        let primaries = &mut self.primaries;
        for place in places {
            let (was, is) = (primary_in(before, *place), primary_in(map, *place));
            match (was.is_some_and(|was| own.has(was)), is.is_some_and(|is| own.has(is))) {
                (false, true) => {
                    primaries.moved_away.remove(place);
                    match was.and_then(|was| owners.get(&was)) {
                        Some(node) => {
                            primaries.of.insert(*node);
                            primaries.promoted.insert(*place);
                        }
                        None => drop(primaries.handed_over.insert(*place)),
                    }
                }
                (true, false) => {
                    primaries.promoted.remove(place);
                    primaries.handed_over.remove(place);
                    primaries.moved_away.insert(*place);
                }
                _ => continue,
            }
            primaries.due.get_or_insert(self.now.after_ms(TOGETHER_MS));
        }
    }

    /// Logs one line for all changes of primaries that happened together.
    pub(super) fn log_primary_changes(&mut self) {
        if self.primaries.due.is_none_or(|due| self.now < due) {
            return;
        }
        let Primaries { promoted, of, handed_over, moved_away: given_up, .. } =
            std::mem::take(&mut self.primaries);
        let count = |places: &BTreeSet<_>| places.len() as u32;
        let notice = LogNotice::Primaries {
            promoted: count(&promoted),
            of: of.into_iter().collect(),
            handed_over: count(&handed_over),
            moved_away: count(&given_up),
        };
        if !(promoted.is_empty() && handed_over.is_empty() && given_up.is_empty()) {
            self.log_notice(notice);
        }
    }
}

/// Whether the change names the groups that it changes.
fn is_of_few(change: &MapChange) -> bool {
    !matches!(change, MapChange::CreateKeyspace { .. } | MapChange::SplitKeyspace(_))
}

fn group_of(change: &MapChange) -> Option<(KeyspaceId, PartitionId)> {
    match change {
        MapChange::SetGroup { keyspace, partition, .. } => Some((*keyspace, *partition)),
        _ => None,
    }
}
