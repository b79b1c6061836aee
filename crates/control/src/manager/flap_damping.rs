//! Flap damping. A node that goes down often, on an overloaded machine for example, gets no primaries from load balancing.
//! Each time it must wait longer before it may come back.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_placement::{ClusterMap, GroupState, NodeState};
use zerohop_wire::ids::{Incarnation, InstanceId, NodeId};

use super::lead_settings::LeadSettings;
use zerohop_base::time::Time;

/// The history of the nodes that a leader has observed. A new leader starts with an empty history and assumes
/// that a node has just changed.
#[derive(Debug, Default)]
pub(super) struct FlapDamping {
    nodes: BTreeMap<NodeId, NodeHistory>,
    /// The last time at which a node went down or came back.
    changed: Option<Time>,
    /// Nodes that are down and without which a partition has no primary.
    needed: BTreeSet<NodeId>,
}

#[derive(Clone, Copy, Debug)]
struct NodeHistory {
    incarnation: Incarnation,
    is_down: bool,
    /// The last time at which the node came back.
    back: Option<Time>,
    /// The node may not come back before this time.
    not_before: Time,
    /// The wait that the node got when it last went down.
    wait_ms: u64,
}

impl FlapDamping {
    /// Records the state changes of the nodes. The leader calls it whenever the map may have changed.
    pub(super) fn record_state_changes(&mut self, now: Time, map: &ClusterMap, settings: LeadSettings) {
        self.nodes.retain(|node, _| map.node(*node).is_some());
        let mut changed = *self.changed.get_or_insert(now);
        for node in map.nodes() {
            let (incarnation, is_down) = (node.incarnation(), node.state() == NodeState::Down);
            let new = NodeHistory { incarnation, is_down, back: None, not_before: now, wait_ms: 0 };
            let past = self.nodes.entry(node.id()).or_insert(new);
            if past.incarnation != incarnation {
                // A new start of the node (a new incarnation) does not inherit the wait of the previous
                // start.
                (*past, changed) = (new, now);
            } else if past.is_down != is_down {
                (past.is_down, changed) = (is_down, now);
                if is_down {
                    let is_soon = past.back.is_some_and(|back| now.since_us(back) < settings.flap_ms * 1000);
                    let longer_ms = (past.wait_ms * 2).clamp(settings.back_ms, settings.back_max_ms);
                    past.wait_ms = if is_soon { longer_ms } else { 0 };
                    past.not_before = now.after_ms(past.wait_ms);
                } else {
                    past.back = Some(now);
                }
            }
        }
        self.changed = Some(changed);
    }

    /// Records the down nodes that no other node can replace; these nodes do not have to wait.
    pub(super) fn record_needed(&mut self, map: &ClusterMap) {
        let node_of = |instance: &InstanceId| map.instance(*instance).map(|found| found.node);
        self.needed.clear();
        if self.nodes.values().all(|past| !past.is_down) {
            return;
        }
        let is_down = |node: &NodeId| self.nodes.get(node).is_some_and(|past| past.is_down);
        for (_, group) in map.keyspaces().flat_map(|(_, keyspace)| keyspace.groups()) {
            let primary = node_of(&group.primary);
            if group.state == GroupState::Recovering || primary.is_none_or(|node| is_down(&node)) {
                self.needed.extend(primary);
                self.needed.extend(group.in_sync.iter().filter_map(node_of));
            }
        }
    }

    /// Whether a node that is down, and answers, may come back.
    pub(super) fn may_return(&self, now: Time, node: NodeId) -> bool {
        self.needed.contains(&node) || self.nodes.get(&node).is_none_or(|past| past.not_before <= now)
    }

    /// Whether no node has gone down or come back for long enough.
    pub(super) fn is_stable(&self, now: Time, settings: LeadSettings) -> bool {
        self.changed.is_some_and(|changed| now.since_us(changed) >= settings.stable_ms * 1000)
    }
}
