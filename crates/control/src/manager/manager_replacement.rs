//! Replacement of a manager that is gone by another node, after a delay. A manager's id contains the node
//! that it is on. A node that has lost its folder gets a new id, so that its manager is never mistaken for
//! the one whose promises were lost.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_placement::{Address, ClusterMap, NodeState};
use zerohop_wire::ids::NodeId;

use crate::command::{ControlCommand, ManagerId, ManagerInfo};
use crate::state::ControlState;
use zerohop_base::time::Time;

/// Bits of a manager's id below the number of its node.
const COUNT_BITS: u32 = 40;

/// The managers that the leader has received messages from.
#[derive(Debug, Default)]
pub(super) struct ManagerReplacement {
    /// When the leader last received a message of each manager; if it has not, the time since which it has
    /// led.
    last_message: BTreeMap<ManagerId, Time>,
    /// The number of nodes that are up, and since when that number has been the same.
    up: (usize, Time),
}

/// A new id of a manager on this node: `mark` counts commands and only rises, so that no earlier manager had
/// this id.
pub(crate) fn id_on(node: NodeId, mark: u64) -> ManagerId {
    ManagerId(u64::from(node.get()) << COUNT_BITS | mark & ((1 << COUNT_BITS) - 1))
}

/// The node on which a manager was added; `None`: the manager is a bootstrap member.
pub(crate) fn node_of(id: ManagerId) -> Option<NodeId> {
    u32::try_from(id.0 >> COUNT_BITS).ok().filter(|node| *node != 0).map(NodeId)
}

/// The number of managers that a cluster with so many nodes should have; the same as at bootstrap.
pub(crate) fn managers_needed(nodes: usize) -> usize {
    match nodes {
        0..=2 => 1,
        3..=8 => 3,
        _ => 5,
    }
}

impl ManagerReplacement {
    /// A manager has sent a message to this one.
    pub(super) fn record_message(&mut self, from: ManagerId, now: Time) {
        self.last_message.insert(from, now);
    }

    /// Called when leadership has changed, or this manager leads again.
    pub(super) fn release(&mut self) {
        *self = ManagerReplacement::default();
    }

    /// The command that the leader `me` has to propose. A member of the control group that has been silent
    /// for `after_ms` is replaced if a node is up and has no manager. If the group has fewer members than the
    /// nodes that are up should have, members are added. One change at a time: the next change waits until
    /// this one is decided and the time has passed again.
    pub(super) fn command(
        &mut self,
        now: Time,
        me: ManagerId,
        state: &ControlState,
        voters: &[ManagerId],
        after_ms: u64,
    ) -> Option<ControlCommand> {
        let managers = state.managers();
        self.last_message.retain(|id, _| managers.iter().any(|one| one.id == *id));
        for one in managers {
            // A member that is new here gets the full time before it counts as silent.
            self.last_message.entry(one.id).or_insert(now);
        }
        let are_settled =
            managers.len() == voters.len() && managers.iter().all(|one| voters.contains(&one.id));
        let is_silent = |one: &ManagerInfo| {
            one.id != me && now.since_us(self.last_message[&one.id]) > after_ms.saturating_mul(1_000)
        };
        let gone = managers.iter().find(|one| is_silent(one));
        // The leader waits for a member that is being added, unless that member has gone silent.
        if !are_settled && gone.is_none() {
            return None;
        }
        let map = state.map();
        let up = map.nodes().filter(|node| node.state() == NodeState::Up).count();
        let mut next: Vec<ManagerInfo> = managers.iter().filter(|one| Some(*one) != gone).cloned().collect();
        if self.up.0 != up {
            self.up = (up, now);
        }
        let short = managers_needed(up).saturating_sub(managers.len());
        let places = match gone {
            Some(_) => 1,
            // A short group alone is no reason: nodes may be joining one after the other.
            None if short > 0 && now.since_us(self.up.1) > after_ms.saturating_mul(1_000) => short,
            None => return None,
        };
        for _ in 0..places {
            let heir = choose_successor(state, map, &next, gone)?;
            next.push(heir);
        }
        self.last_message.clear();
        self.last_message.insert(me, now);
        Some(ControlCommand::SetManagers(next))
    }
}

/// Selects the successor: a node that is up and has no manager. The node that shares its failure domain with
/// the fewest managers is preferred, then the lowest id. A node with a silent manager is used only if there
/// is no other: it may have returned with another folder.
fn choose_successor(
    state: &ControlState,
    map: &ClusterMap,
    managers: &[ManagerInfo],
    gone: Option<&ManagerInfo>,
) -> Option<ManagerInfo> {
    let was_there = |manager: &str| gone.is_some_and(|one| one.addr.as_str() == manager);
    let of = |one: &ManagerInfo| map.nodes().find(|node| node.manager() == one.addr.as_str());
    let domains: Vec<u32> =
        managers.iter().filter_map(of).map(|node| state.facts(node.id()).domain).collect();
    let in_use: BTreeSet<&str> = managers.iter().map(|one| one.addr.as_str()).collect();
    let free = map.nodes().filter(|node| node.state() == NodeState::Up && !in_use.contains(node.manager()));
    let together =
        |node: NodeId| domains.iter().filter(|domain| **domain == state.facts(node).domain).count();
    let best = free.min_by_key(|node| (was_there(node.manager()), together(node.id()), node.id()))?;
    let addr = Address::new(best.manager()).ok()?;
    Some(ManagerInfo { id: id_on(best.id(), state.applied_count() + 1), addr })
}

#[cfg(test)]
mod tests {
    use zerohop_wire::ids::Incarnation;

    use super::*;
    use crate::command::{CommandRequest, JoinNode, RequestId};

    const AFTER_MS: u64 = 30_000;

    fn info(id: u64, host: u32) -> ManagerInfo {
        ManagerInfo { id: ManagerId(id), addr: address(host) }
    }

    fn address(host: u32) -> Address {
        Address::new(&format!("n{host}:1")).unwrap()
    }

    /// Nodes from 1 on, with bootstrap members on the first of them; `domains` gives the failure domain of
    /// each node.
    fn state(members: u32, domains: &[u32]) -> ControlState {
        let mut state = ControlState::new((1..=members).map(|id| info(u64::from(id), id)).collect());
        for (host, domain) in (1..).zip(domains) {
            let join = JoinNode {
                node: None,
                replaces: Incarnation(0),
                incarnation: Incarnation(1),
                manager: address(host),
                instances: vec![Address::new(&format!("n{host}:2")).unwrap()],
                domain: *domain,
                capacity: 1,
                intact: true,
                closed: false,
            };
            apply(&mut state, ControlCommand::Join(join));
        }
        state
    }

    fn apply(state: &mut ControlState, command: ControlCommand) {
        let id = RequestId { origin: 1, number: state.applied_count() + 1 };
        let applied = state.apply(&CommandRequest { id, after: state.applied_count(), command });
        applied.outcome.result.unwrap();
    }

    /// The command of manager 1 after it has received messages of the managers in `senders` every second for so
    /// long.
    fn after(
        replacement: &mut ManagerReplacement,
        state: &ControlState,
        senders: &[u64],
        (from_ms, ms): (u64, u64),
    ) -> Option<Vec<ManagerInfo>> {
        let voters: Vec<ManagerId> = state.managers().iter().map(|one| one.id).collect();
        for at_ms in (from_ms..from_ms + ms).step_by(1_000) {
            let now = Time(at_ms * 1_000);
            senders.iter().for_each(|id| replacement.record_message(ManagerId(*id), now));
            if let Some(command) = replacement.command(now, ManagerId(1), state, &voters, AFTER_MS) {
                let ControlCommand::SetManagers(managers) = command else { panic!("{command:?}") };
                return Some(managers);
            }
        }
        None
    }

    #[test]
    fn long_down_manager_is_replaced_by_node_in_another_domain() {
        let state = state(3, &[1, 2, 3, 1, 4]);
        let mut replacement = ManagerReplacement::default();
        assert_eq!(after(&mut replacement, &state, &[2], (0, 29_000)), None, "it may come back");
        let managers = after(&mut replacement, &state, &[2], (29_000, 5_000)).unwrap();
        assert_eq!(managers[..2], [info(1, 1), info(2, 2)]);
        let new = &managers[2];
        assert_eq!((node_of(new.id), &new.addr), (Some(NodeId(5)), &address(5)));
        // Managers that send messages stay, and without another node no replacement is possible.
        let mut replacement = ManagerReplacement::default();
        assert_eq!(after(&mut replacement, &state, &[2, 3], (0, 300_000)), None);
        let mut replacement = ManagerReplacement::default();
        let mut three = self::state(3, &[1, 2, 3]);
        let down = ControlCommand::SetNodeState {
            node: NodeId(3),
            incarnation: Incarnation(1),
            state: NodeState::Down,
        };
        apply(&mut three, down);
        assert_eq!(after(&mut replacement, &three, &[2], (0, 300_000)), None);
    }

    #[test]
    fn manager_ids_are_never_reused_and_name_their_node() {
        let mut state = state(3, &[1, 2, 3, 4]);
        let mut seen = BTreeSet::from([ManagerId(1), ManagerId(2), ManagerId(3)]);
        for _ in 0..5 {
            let others: Vec<ManagerInfo> = state.managers()[..2].to_vec();
            let new = choose_successor(&state, state.map(), &others, None).unwrap();
            assert!(seen.insert(new.id));
            assert_eq!(node_of(new.id), Some(NodeId(3)));
            apply(&mut state, ControlCommand::SetManagers([others, vec![new]].concat()));
        }
        assert_eq!(node_of(ManagerId(5)), None, "a bootstrap member");
    }

    #[test]
    fn control_group_of_one_grows_once_cluster_is_stable() {
        let mut replacement = ManagerReplacement::default();
        assert_eq!(after(&mut replacement, &state(1, &[1, 2]), &[], (0, 100_000)), None);
        let state = state(1, &[1, 2, 3]);
        let mut replacement = ManagerReplacement::default();
        assert_eq!(after(&mut replacement, &state, &[], (0, 29_000)), None);
        let managers = after(&mut replacement, &state, &[], (29_000, 5_000)).unwrap();
        let hosts: Vec<&str> = managers.iter().map(|one| one.addr.as_str()).collect();
        assert_eq!(hosts, ["n1:1", "n2:1", "n3:1"]);
        let ids: BTreeSet<ManagerId> = managers.iter().map(|one| one.id).collect();
        assert_eq!(ids.len(), 3);
    }
}
