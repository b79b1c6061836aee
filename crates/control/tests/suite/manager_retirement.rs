//! When a manager that the list of managers does not name leaves the control group: not before the control group decides without it,
//! and then at any rate.

use zerohop_control::command::{ControlCommand, ManagerId, ManagerInfo};
use zerohop_control::manager::RaftManager;
use zerohop_wire::ids::KeyspaceId;

use crate::agents_alone::{formed, keyspace};
use crate::agents_status::{SECOND, agent, cluster_state, kill};
use crate::support::disk::Disk;
use crate::support::nodes::{Nodes, SimulatedNodeEvent};
use crate::support::random::Random;

#[test]
fn control_group_keeps_its_quorum_until_its_successor_answers() {
    let mut nodes = formed(3, 1);
    keyspace(&mut nodes, 16);
    let leader = nodes.leader().expect("leads");
    for successor in [(leader + 1) % 3, (leader + 2) % 3] {
        let mut nodes = formed(3, 1);
        keyspace(&mut nodes, 16);
        assert_eq!(nodes.leader(), Some(leader));
        kill(&mut nodes, successor);
        let listed = agent(&nodes, leader).managers().to_vec();
        let named = listed.iter().filter(|one| one.addr == nodes.machines[successor].address).cloned();
        let named: Vec<ManagerInfo> = named.collect();
        nodes.operate(leader, ControlCommand::SetManagers(named.clone()));
        let until = nodes.now + 15 * SECOND;
        nodes.run(until);
        let leads = nodes.leader().expect("the managers that answer decide");
        let count = |nodes: &Nodes| agent(nodes, leads).manager().expect("leads").state().applied_count();
        let before = count(&nodes);
        nodes.operate(leads, ControlCommand::DropKeyspace(KeyspaceId(77)));
        let until = nodes.now + 5 * SECOND;
        nodes.run(until);
        assert!(count(&nodes) > before, "nothing is decided: {:?}", cluster_state(&nodes, leads));
        nodes.at(until, SimulatedNodeEvent::Start { at: successor });
        nodes.run(until + 15 * SECOND);
        assert_eq!(nodes.leader(), Some(successor));
        assert_eq!(agent(&nodes, successor).managers(), named);
        for at in (0..3).filter(|at| *at != successor) {
            assert!(agent(&nodes, at).manager().is_none(), "{at} has left the control group");
        }
    }
}

#[test]
fn manager_that_was_away_during_its_removal_leaves() {
    let mut nodes = formed(3, 1);
    keyspace(&mut nodes, 16);
    let leader = nodes.leader().expect("leads");
    let removed = (leader + 1) % 3;
    let mut managers = agent(&nodes, leader).managers().to_vec();
    let mark = agent(&nodes, leader).manager().expect("leads").state().applied_count();
    let addr = agent(&nodes, 3).settings().manager.clone();
    let at = managers.iter().position(|one| one.addr == nodes.machines[removed].address).expect("is listed");
    managers[at] = ManagerInfo { id: ManagerId(4 << 40 | (mark + 1)), addr };
    kill(&mut nodes, removed);
    nodes.operate(leader, ControlCommand::SetManagers(managers));
    let until = nodes.now + 10 * SECOND;
    nodes.run(until);
    // Its log names it as a voter, and no leader contacts it.
    nodes.at(until, SimulatedNodeEvent::Start { at: removed });
    nodes.run(until + SECOND);
    assert!(agent(&nodes, removed).manager().is_some(), "it starts as the member that its log has");
    nodes.run(until + 10 * SECOND);
    assert!(agent(&nodes, removed).manager().is_none(), "the others decide without it");
    assert!(cluster_state(&nodes, removed).has_quorum);
    assert!(nodes.checker.violations.is_empty(), "{:?}", nodes.checker.violations);
}

/// Runs until this time, past what the checkers report: two control groups exist for a moment.
fn run_on(nodes: &mut Nodes, until: u64) {
    while nodes.now < until {
        nodes.checker.violations.clear();
        nodes.run(nodes.now + SECOND / 100);
    }
}

#[test]
fn managers_from_before_a_forced_new_cluster_leave_though_they_elect_a_leader() {
    let mut nodes = formed(3, 1);
    keyspace(&mut nodes, 16);
    let survivor = nodes.leader().expect("leads");
    let others = [(survivor + 1) % 3, (survivor + 2) % 3];
    let node = agent(&nodes, survivor).node().expect("has joined");
    nodes.run(nodes.now + 2 * SECOND);
    for at in [survivor, others[0], others[1]] {
        kill(&mut nodes, at);
    }
    let log = nodes.machines[survivor].control.crash(&mut Random::new(1));
    let (log, _, state) = RaftManager::force_new(&log, node).expect("is forced");
    nodes.machines[survivor].control = Disk::with(log);
    nodes.machines[survivor].manager = Some(state.managers()[0].id);
    let begin = nodes.now;
    // The others are a majority of the managers that their logs name.
    for at in others {
        nodes.at(begin, SimulatedNodeEvent::Start { at });
    }
    run_on(&mut nodes, begin + 3 * SECOND);
    assert!(others.contains(&nodes.leader().expect("the old managers have elected one")));
    nodes.at(nodes.now, SimulatedNodeEvent::Start { at: survivor });
    run_on(&mut nodes, begin + 6 * SECOND);
    for at in others {
        let agent = agent(&nodes, at);
        let manager =
            agent.manager().map(|manager| (manager.id(), manager.leader(), manager.state().applied_count()));
        assert_eq!(manager, None, "{at} has left the control group: {:?}", agent.managers());
    }
    run_on(&mut nodes, begin + 12 * SECOND);
    assert_eq!(nodes.leader(), Some(survivor));
    for at in 0..4 {
        assert_eq!(agent(&nodes, at).managers(), state.managers(), "{at}");
    }
}
