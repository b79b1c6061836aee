//! The reports of nodes about the cluster: a missing quorum, nodes that do not answer, and log
//! notices of failures and takeovers.

use std::sync::Arc;

use zerohop_base::time::Time;
use zerohop_control::agent::{Agent, ClusterStatus, LogNotice};
use zerohop_control::command::{ControlCommand, ManagerId, ManagerInfo};
use zerohop_placement::NodeState;
use zerohop_wire::ids::NodeId;

use crate::agents_alone::{formed, keyspace};
use crate::support::nodes::{Nodes, SimulatedNodeEvent};

pub(crate) const SECOND: u64 = 1_000_000;

pub(crate) fn agent(nodes: &Nodes, at: usize) -> &Agent {
    nodes.machines[at].agent.as_ref().expect("runs")
}

pub(crate) fn kill(nodes: &mut Nodes, at: usize) {
    nodes.machines[at].agent = None;
    nodes.machines[at].life += 1;
}

/// The cluster as a node sees it now. All nodes have started within the first moments, so that
/// their clocks are within a second of the world's.
pub(crate) fn cluster_state(nodes: &Nodes, at: usize) -> ClusterStatus {
    agent(nodes, at).cluster_state(Time(0))
}

fn count_loss_notices(notices: &[LogNotice]) -> usize {
    notices.iter().filter(|one| matches!(one, LogNotice::QuorumLost(_))).count()
}

#[test]
fn node_ids_follow_host_list_in_any_join_order() {
    let mut nodes = formed(3, 2);
    let number = |nodes: &Nodes, at: usize| agent(nodes, at).node().expect("has joined");
    for at in 0..5 {
        assert_eq!(number(&nodes, at), NodeId(at as u32 + 1));
    }
    // A node that is not in the list gets a number behind those of the list.
    let mut nodes_late = Nodes::new(7, nodes.setting.clone());
    for at in (0..5).rev() {
        nodes_late.at((5 - at as u64) * 300_000, SimulatedNodeEvent::Start { at });
    }
    nodes_late.run(6 * SECOND);
    for at in 0..5 {
        assert_eq!(number(&nodes_late, at), NodeId(at as u32 + 1));
    }
    nodes.run(5 * SECOND);
}

#[test]
fn lost_quorum_is_reported_with_silent_members() {
    let mut nodes = formed(3, 1);
    keyspace(&mut nodes, 16);
    nodes.run(6 * SECOND);
    for at in 0..4 {
        let seen = cluster_state(&nodes, at);
        assert!(seen.has_quorum && seen.leader.is_some() && seen.silent.is_empty(), "{at}: {seen:?}");
        assert_eq!(
            (seen.is_manager, seen.node, seen.answering()),
            (at < 3, Some(NodeId(at as u32 + 1)), (3, 3))
        );
        assert_eq!(count_loss_notices(&nodes.machines[at].log_notices), 0);
    }
    // The leader stays, and must notice that it has no majority.
    let leader = nodes.leader().expect("leads");
    let others = [(leader + 1) % 3, (leader + 2) % 3];
    others.iter().for_each(|at| kill(&mut nodes, *at));
    nodes.run(16 * SECOND);
    let dead = |node: &NodeId| others.iter().any(|at| NodeId(*at as u32 + 1) == *node);
    for at in [leader, 3] {
        let seen = cluster_state(&nodes, at);
        assert!(!seen.has_quorum && seen.leader.is_none() && seen.leaderless_ms >= 5_000, "{at}: {seen:?}");
        assert!(seen.silent.len() == 2 && seen.silent.iter().all(dead), "{seen:?}");
        assert_eq!(seen.answering(), (1, 3), "{seen:?}");
        assert!(seen.to_string().starts_with("no quorum: "), "{seen}");
        assert_eq!(count_loss_notices(&nodes.machines[at].log_notices), 1, "it is logged once");
        let map = agent(&nodes, at).map();
        assert!(map.nodes().all(|node| node.state() == NodeState::Up), "the map cannot say it");
    }
    assert!(cluster_state(&nodes, leader).to_string().contains("1 of 3 managers"));
    // With one more manager there is a quorum, which decides that the other node is down.
    nodes.start(others[0]);
    nodes.run(26 * SECOND);
    for at in [leader, 3, others[0]] {
        let seen = cluster_state(&nodes, at);
        assert!(seen.has_quorum && seen.leader.is_some() && seen.silent.is_empty(), "{at}: {seen:?}");
    }
    let notices = &nodes.machines[leader].log_notices;
    assert!(notices.contains(&LogNotice::QuorumBack), "{notices:?}");
    let gone = NodeId(others[1] as u32 + 1);
    assert!(
        notices.iter().any(|one| matches!(one, LogNotice::Down { node, .. } if *node == gone)),
        "{notices:?}"
    );
}

#[test]
fn log_reports_node_death_and_failovers() {
    let mut nodes = formed(3, 0);
    keyspace(&mut nodes, 64);
    nodes.run(6 * SECOND);
    let leader = nodes.leader().expect("leads");
    let dies = (leader + 1) % 3;
    let node = NodeId(dies as u32 + 1);
    let before = Arc::clone(agent(&nodes, leader).map());
    let of_node = |map: &zerohop_placement::ClusterMap, node: NodeId| {
        let is_its = |primary| map.instance(primary).expect("is in the map").node == node;
        map.keyspaces()
            .flat_map(|(_, found)| found.groups())
            .filter(|(_, group)| is_its(group.primary))
            .count()
    };
    for machine in &mut nodes.machines {
        machine.log_notices.clear();
    }
    let had = of_node(&before, node);
    assert!(had > 0);
    kill(&mut nodes, dies);
    nodes.run(9 * SECOND);
    let mut promoted = 0;
    for at in [leader, (leader + 2) % 3] {
        let notices = &nodes.machines[at].log_notices;
        let down = LogNotice::Down { node, by: Some(NodeId(leader as u32 + 1)), is_own: at == leader };
        assert_eq!(notices.iter().filter(|one| **one == down).count(), 1, "{notices:?}");
        let primaries: Vec<u32> = notices
            .iter()
            .filter_map(|one| match one {
                LogNotice::Primaries { promoted, of, .. } if *promoted > 0 => {
                    assert_eq!(of, &[node]);
                    Some(*promoted)
                }
                _ => None,
            })
            .collect();
        assert!(primaries.len() <= 1, "one line for all: {notices:?}");
        promoted += primaries.iter().sum::<u32>();
    }
    assert_eq!(promoted as usize, had);
    let words =
        LogNotice::Primaries { promoted: 85, of: vec![node], handed_over: 0, moved_away: 0 }.to_string();
    assert!(words.contains("85 partitions"), "{words}");
}

#[test]
fn all_members_log_a_leader_change() {
    let mut nodes = formed(3, 1);
    let leader = nodes.leader().expect("leads");
    let next = (leader + 1) % 3;
    let id = ManagerId(next as u64 + 1);
    nodes.handle_event(leader, zerohop_control::agent::AgentEvent::TransferLeadership(id));
    nodes.operate(next, ControlCommand::DropKeyspace(zerohop_wire::ids::KeyspaceId(77)));
    nodes.run(8 * SECOND);
    assert_eq!(nodes.leader(), Some(next));
    for at in 0..4 {
        let leads = |one: &LogNotice| matches!(one, LogNotice::LeaderChanged { node, .. } if *node == Some(NodeId(next as u32 + 1)));
        let notices = &nodes.machines[at].log_notices;
        assert_eq!(notices.iter().filter(|one| leads(one)).count(), 1, "{at}: {notices:?}");
    }
}

#[test]
fn former_manager_sees_the_control_group_as_other_nodes_do() {
    let mut nodes = formed(3, 1);
    keyspace(&mut nodes, 16);
    let leader = nodes.leader().expect("leads");
    let removed = (leader + 1) % 3;
    let mut managers = agent(&nodes, leader).managers().to_vec();
    let mark = agent(&nodes, leader).manager().expect("leads").state().applied_count();
    let id = ManagerId(4 << 40 | (mark + 1));
    let addr = agent(&nodes, 3).settings().manager.clone();
    let at = managers.iter().position(|one| one.id == ManagerId(removed as u64 + 1)).expect("is listed");
    managers[at] = ManagerInfo { id, addr };
    nodes.operate(leader, ControlCommand::SetManagers(managers));
    let until = nodes.now + 15 * SECOND;
    nodes.run(until);
    for at in 0..4 {
        let seen = cluster_state(&nodes, at);
        assert!(seen.has_quorum && seen.leader.is_some(), "{at}: {seen:?}");
        assert_eq!(seen.is_manager, at != removed, "{at}: {seen:?}");
        assert_eq!(count_loss_notices(&nodes.machines[at].log_notices), 0, "{at}");
    }
    assert!(agent(&nodes, removed).manager().is_none(), "it has left the control group");
    // A quorum that is lost is reported by the former manager, too.
    for at in (0..3).filter(|at| *at != removed) {
        kill(&mut nodes, at);
    }
    let until = nodes.now + 10 * SECOND;
    nodes.run(until);
    for at in [removed, 3] {
        assert!(!cluster_state(&nodes, at).has_quorum, "{at}");
        assert_eq!(count_loss_notices(&nodes.machines[at].log_notices), 1, "{at}");
    }
}
