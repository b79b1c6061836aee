//! Who takes the place of a manager that is gone: another node, after a while. A manager is known by the node that it is on, so
//! that one which lost its folder, and is another node since, is never taken for the one that had promised something.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_placement::{Address, ClusterMap, NodeState};
use zerohop_wire::ids::NodeId;

use crate::Time;
use crate::command::{ControlCommand, ManagerId, ManagerInfo};
use crate::state::ControlState;

/// Bits of a manager's id below the number of its node.
const COUNT_BITS: u32 = 40;

/// Which managers have been heard from, by the one that leads.
#[derive(Debug, Default)]
pub(super) struct ManagerReplacement {
    /// When; from when this manager has led if not since.
    heard: BTreeMap<ManagerId, Time>,
    /// How many nodes are up, and since when as many.
    up: (usize, Time),
}

/// The id of a manager of this node that none had before: `mark` counts commands, and only goes up.
pub(crate) fn id_on(node: NodeId, mark: u64) -> ManagerId {
    ManagerId(u64::from(node.get()) << COUNT_BITS | mark & ((1 << COUNT_BITS) - 1))
}

/// Which node a manager was taken in on; `None`: it is a founder.
pub(crate) fn node_of(id: ManagerId) -> Option<NodeId> {
    u32::try_from(id.0 >> COUNT_BITS).ok().filter(|node| *node != 0).map(NodeId)
}

/// How many managers so many nodes should have: the same as found a cluster of as many.
fn wanted(nodes: usize) -> usize {
    match nodes {
        0..=2 => 1,
        3..=8 => 3,
        _ => 5,
    }
}

impl ManagerReplacement {
    /// A manager has said something to this one.
    pub(super) fn heard(&mut self, from: ManagerId, now: Time) {
        self.heard.insert(from, now);
    }

    /// Another leads, or this one does again.
    pub(super) fn release(&mut self) {
        *self = ManagerReplacement::default();
    }

    /// What the leader `me` has to propose: a member of the control group that has been silent for `after_ms` is replaced, if
    /// there is a node that is up and has none; and if there are fewer members than the nodes that are up should have, some are
    /// added. One change at a time: the next one when this is decided and the time has passed again.
    pub(super) fn command(
        &mut self,
        now: Time,
        me: ManagerId,
        state: &ControlState,
        voters: &[ManagerId],
        after_ms: u64,
    ) -> Option<ControlCommand> {
        let managers = state.managers();
        self.heard.retain(|id, _| managers.iter().any(|one| one.id == *id));
        for one in managers {
            // Whoever is new here has as long to be heard.
            self.heard.entry(one.id).or_insert(now);
        }
        let are_settled =
            managers.len() == voters.len() && managers.iter().all(|one| voters.contains(&one.id));
        let is_silent = |one: &ManagerInfo| {
            one.id != me && now.since_us(self.heard[&one.id]) > after_ms.saturating_mul(1_000)
        };
        let gone = managers.iter().find(|one| is_silent(one));
        // One that is on its way in is waited for, unless it is gone again.
        if !are_settled && gone.is_none() {
            return None;
        }
        let map = state.map();
        let up = map.nodes().filter(|node| node.state() == NodeState::Up).count();
        let mut next: Vec<ManagerInfo> = managers.iter().filter(|one| Some(*one) != gone).cloned().collect();
        if self.up.0 != up {
            self.up = (up, now);
        }
        let short = wanted(up).saturating_sub(managers.len());
        let places = match gone {
            Some(_) => 1,
            // Not because nodes come one after the other.
            None if short > 0 && now.since_us(self.up.1) > after_ms.saturating_mul(1_000) => short,
            None => return None,
        };
        for _ in 0..places {
            let heir = heir(state, map, &next, gone)?;
            next.push(heir);
        }
        self.heard.clear();
        self.heard.insert(me, now);
        Some(ControlCommand::SetManagers(next))
    }
}

/// A node that is up and has no manager: one that fails together with as few others as can be had, the lowest of those. One
/// where a manager is gone only if there is no other: it may have come back there with another folder.
fn heir(
    state: &ControlState,
    map: &ClusterMap,
    managers: &[ManagerInfo],
    gone: Option<&ManagerInfo>,
) -> Option<ManagerInfo> {
    let was_there = |manager: &str| gone.is_some_and(|one| one.addr.as_str() == manager);
    let of = |one: &ManagerInfo| map.nodes().find(|node| node.manager() == one.addr.as_str());
    let domains: Vec<u32> =
        managers.iter().filter_map(of).map(|node| state.facts(node.id()).domain).collect();
    let taken: BTreeSet<&str> = managers.iter().map(|one| one.addr.as_str()).collect();
    let free = map.nodes().filter(|node| node.state() == NodeState::Up && !taken.contains(node.manager()));
    let together =
        |node: NodeId| domains.iter().filter(|domain| **domain == state.facts(node).domain).count();
    let best = free.min_by_key(|node| (was_there(node.manager()), together(node.id()), node.id()))?;
    let addr = Address::new(best.manager()).ok()?;
    Some(ManagerInfo { id: id_on(best.id(), state.mark() + 1), addr })
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

    /// Nodes from one on, with founders on the first of them; `domains` says what fails together.
    fn state(founders: u32, domains: &[u32]) -> ControlState {
        let mut state = ControlState::new((1..=founders).map(|id| info(u64::from(id), id)).collect());
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
        let id = RequestId { origin: 1, number: state.mark() + 1 };
        let applied = state.apply(&CommandRequest { id, after: state.mark(), command });
        applied.outcome.result.unwrap();
    }

    /// What manager 1 wants after these have been heard every second for so long.
    fn after(
        succession: &mut ManagerReplacement,
        state: &ControlState,
        heard: &[u64],
        (from_ms, ms): (u64, u64),
    ) -> Option<Vec<ManagerInfo>> {
        let voters: Vec<ManagerId> = state.managers().iter().map(|one| one.id).collect();
        for at_ms in (from_ms..from_ms + ms).step_by(1_000) {
            let now = Time(at_ms * 1_000);
            heard.iter().for_each(|id| succession.heard(ManagerId(*id), now));
            if let Some(command) = succession.command(now, ManagerId(1), state, &voters, AFTER_MS) {
                let ControlCommand::SetManagers(managers) = command else { panic!("{command:?}") };
                return Some(managers);
            }
        }
        None
    }

    #[test]
    fn a_manager_that_is_gone_for_long_is_replaced_by_a_node_that_fails_apart() {
        let state = state(3, &[1, 2, 3, 1, 4]);
        let mut succession = ManagerReplacement::default();
        assert_eq!(after(&mut succession, &state, &[2], (0, 29_000)), None, "it may come back");
        let managers = after(&mut succession, &state, &[2], (29_000, 5_000)).unwrap();
        assert_eq!(managers[..2], [info(1, 1), info(2, 2)]);
        let new = &managers[2];
        assert_eq!((node_of(new.id), &new.addr), (Some(NodeId(5)), &address(5)));
        // Those that are heard stay, and without another node nothing can be done.
        let mut succession = ManagerReplacement::default();
        assert_eq!(after(&mut succession, &state, &[2, 3], (0, 300_000)), None);
        let mut succession = ManagerReplacement::default();
        let mut three = self::state(3, &[1, 2, 3]);
        let down = ControlCommand::SetNodeState {
            node: NodeId(3),
            incarnation: Incarnation(1),
            state: NodeState::Down,
        };
        apply(&mut three, down);
        assert_eq!(after(&mut succession, &three, &[2], (0, 300_000)), None);
    }

    #[test]
    fn ids_are_never_given_twice_and_name_their_node() {
        let mut state = state(3, &[1, 2, 3, 4]);
        let mut seen = BTreeSet::from([ManagerId(1), ManagerId(2), ManagerId(3)]);
        for _ in 0..5 {
            let others: Vec<ManagerInfo> = state.managers()[..2].to_vec();
            let new = heir(&state, state.map(), &others, None).unwrap();
            assert!(seen.insert(new.id));
            assert_eq!(node_of(new.id), Some(NodeId(3)));
            apply(&mut state, ControlCommand::SetManagers([others, vec![new]].concat()));
        }
        assert_eq!(node_of(ManagerId(5)), None, "a founder");
    }

    #[test]
    fn a_control_group_of_one_grows_with_its_cluster_once_that_is_calm() {
        let mut succession = ManagerReplacement::default();
        assert_eq!(after(&mut succession, &state(1, &[1, 2]), &[], (0, 100_000)), None);
        let state = state(1, &[1, 2, 3]);
        let mut succession = ManagerReplacement::default();
        assert_eq!(after(&mut succession, &state, &[], (0, 29_000)), None);
        let managers = after(&mut succession, &state, &[], (29_000, 5_000)).unwrap();
        let hosts: Vec<&str> = managers.iter().map(|one| one.addr.as_str()).collect();
        assert_eq!(hosts, ["n1:1", "n2:1", "n3:1"]);
        let ids: BTreeSet<ManagerId> = managers.iter().map(|one| one.id).collect();
        assert_eq!(ids.len(), 3);
    }
}
