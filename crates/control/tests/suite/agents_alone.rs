//! Single agents in special cases: large maps, messages from other clusters, invalid messages,
//! second starts, and operators without a leader.

use std::sync::Arc;

use zerohop_base::time::Time;
use zerohop_control::agent::message::{AgentBody, ControlGroupNews, Message, ProposalAnswer};
use zerohop_control::agent::{
    Agent, AgentEffect, AgentEvent, AgentSettings, ControlRole, EndReason, GroupRequest, LogNotice, NoOutcome,
};
use zerohop_control::command::{
    CommandRefusal, CommandRequest, ControlCommand, GroupStep, JoinNode, LogIndexReport, ManagerId,
    ManagerInfo, Regroup, RegroupOrigin, RequestId,
};
use zerohop_control::limits::{AGENT_FRAME_BYTES_MAX, PIECE_BYTES};
use zerohop_placement::{
    Address, ClusterMap, KeyspaceConfig, MapChange, MapDelta, Node, NodeState, PartitionCount, ReplicaGroup,
};
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, MapEpoch, NodeId, PartitionEpoch, PartitionId};
use zerohop_wire::messages::ClusterId;

use crate::support::nodes::{CLUSTER, Nodes, Setting, SimulatedNodeEvent};

const SECOND: u64 = 1_000_000;

fn setting(managers: usize, others: usize) -> Setting {
    Setting { managers, others, loss: 0, repeats: 0, late: 0, delay_max: 2_000, log_entries_max: 8 }
}

pub(crate) fn formed(managers: usize, others: usize) -> Nodes {
    formed_with(setting(managers, others))
}

fn formed_with(setting: Setting) -> Nodes {
    let mut nodes = Nodes::new(5, setting);
    for at in 0..nodes.machines.len() {
        nodes.at(at as u64 * 20_000, SimulatedNodeEvent::Start { at });
    }
    nodes.run(4 * SECOND);
    assert!(nodes.machines.iter().all(|one| one.agent.as_ref().is_some_and(Agent::has_joined)));
    nodes
}

pub(crate) fn keyspace(nodes: &mut Nodes, partitions: u32) {
    let partitions = PartitionCount::new(partitions).expect("is a power of two");
    let config =
        KeyspaceConfig { partitions, ..KeyspaceConfig::new("papers".parse().expect("is a name"), 7) };
    let nodes_up = nodes.machines.len();
    nodes.operate(0, ControlCommand::CreateKeyspace(config.fitted_to(nodes_up)));
}

fn address(text: &str) -> Address {
    Address::new(text).expect("is an address")
}

fn lone_agent(contacts: &[&str]) -> Agent {
    let contacts = contacts.iter().map(|contact| address(contact)).collect();
    let settings = AgentSettings::new(1, CLUSTER, Incarnation(9), address("me:1"));
    Agent::open(Time(0), AgentSettings { contacts, ..settings }).expect("opens").0
}

/// Runs the agent until this time. Returns the messages that it sends, and its other effects.
fn until(agent: &mut Agent, time: u64) -> (Vec<(Address, Message)>, Vec<AgentEffect>) {
    let (mut sent, mut others) = (Vec::new(), Vec::new());
    loop {
        let now = agent.tick_due().0.min(time);
        for effect in agent.handle(Time(now), AgentEvent::Tick) {
            match effect {
                AgentEffect::Send { to, bytes, .. } => {
                    sent.push((to, Message::decode(&bytes).expect("is one")))
                }
                other => others.push(other),
            }
        }
        if now >= time {
            return (sent, others);
        }
    }
}

/// A map of two nodes and this many partitions.
fn large_map(partitions: u32) -> Arc<ClusterMap> {
    let node = |id: u32| Node {
        id: NodeId(id),
        state: NodeState::Up,
        incarnation: Incarnation(u64::from(id)),
        manager: address(&format!("host-{id}:1")),
        first_instance: InstanceId(id),
        instances: vec![address(&format!("host-{id}:2"))],
    };
    let partitions = PartitionCount::new(partitions).expect("is a power of two");
    let config =
        KeyspaceConfig { partitions, ..KeyspaceConfig::new("papers".parse().expect("is a name"), 7) };
    let groups = ReplicaGroup::spread(&config, &node(1));
    let create = MapChange::CreateKeyspace { id: KeyspaceId(1), config, groups: groups.into() };
    let changes = vec![MapChange::PutNode(node(1)), MapChange::PutNode(node(2)), create];
    let mut changes = changes;
    // Groups without a pattern, so that the delta cannot be compact.
    changes.extend((0..partitions.get()).step_by(2).map(|at| {
        let group = ReplicaGroup::of_one(PartitionEpoch(u64::from(at) + 2), InstanceId(1 + at / 2 % 2));
        MapChange::SetGroup { keyspace: KeyspaceId(1), partition: PartitionId(at), group }
    }));
    let delta = MapDelta { from: MapEpoch(0), to: MapEpoch(50), changes };
    Arc::new(ClusterMap::default().apply(&delta).expect("is a map"))
}

#[test]
fn large_map_arrives_in_pieces_despite_loss() {
    let map = large_map(1 << 16);
    let pieces = map.encode().len().div_ceil(PIECE_BYTES);
    assert!(pieces >= 3, "{pieces}");
    let settings = AgentSettings::new(1, CLUSTER, Incarnation(8), address("host-1:1"));
    let mut host =
        Agent::open(Time(0), AgentSettings { map: Arc::clone(&map), ..settings }).expect("opens").0;
    let mut agent = lone_agent(&["host-1:1"]);
    let mut pieces_sent = 0u32;
    for round in 1..2_000 {
        let now = Time(round * 10_000);
        for effect in agent.handle(now, AgentEvent::Tick) {
            let AgentEffect::Send { bytes, .. } = effect else { continue };
            for effect in host.handle(now, AgentEvent::Received { bytes: &bytes }) {
                let AgentEffect::Send { to, bytes, .. } = effect else { continue };
                assert!(bytes.len() <= AGENT_FRAME_BYTES_MAX);
                pieces_sent += 1;
                if to == address("me:1") && !pieces_sent.is_multiple_of(3u32) {
                    let more = agent.handle(now, AgentEvent::Received { bytes: &bytes });
                    // The agent requests the next piece at once; the answer may be lost in the next
                    // round.
                    for effect in more {
                        if let AgentEffect::Send { bytes, .. } = effect {
                            for effect in host.handle(now, AgentEvent::Received { bytes: &bytes }) {
                                if let AgentEffect::Send { bytes, .. } = effect {
                                    agent.handle(now, AgentEvent::Received { bytes: &bytes });
                                }
                            }
                        }
                    }
                }
            }
        }
        if agent.map() == &map {
            return;
        }
    }
    panic!("has not got it after {pieces_sent} messages");
}

#[test]
fn node_of_other_cluster_is_refused_and_stops_without_contacts() {
    let mut nodes = formed(1, 0);
    let mut agent = lone_agent(&["node-0:7400"]);
    let other = AgentSettings { contacts: vec![address("node-0:7400")], ..agent.settings().clone() };
    let other = AgentSettings { cluster: ClusterId([1; 16]), ..other };
    agent = Agent::open(Time(0), other).expect("opens").0;
    let (sent, _) = until(&mut agent, 10_000);
    let bytes = sent[0].1.encode();
    let now = nodes.now;
    let host = nodes.machines[0].agent.as_mut().expect("runs");
    let refused = host.handle(Time(now), AgentEvent::Received { bytes: &bytes });
    let refusal = refused.iter().find_map(|effect| match effect {
        AgentEffect::Send { to, bytes, .. } if *to == address("me:1") => Some(bytes.clone()),
        _ => None,
    });
    let refusal = refusal.expect("is answered");
    let ends = agent.handle(Time(20_000), AgentEvent::Received { bytes: &refusal });
    let Some(AgentEffect::Ended(why)) = ends.last() else { panic!("{ends:?}") };
    assert_eq!(*why, EndReason::OtherCluster { by: address("node-0:7400"), cluster: CLUSTER });
    assert!(why.to_string().contains("another cluster (0909"), "{why}");
}

#[test]
fn node_learns_cluster_name_from_its_contact() {
    let mut nodes = formed(1, 0);
    let agent = lone_agent(&[]);
    let settings = AgentSettings { cluster: ClusterId::default(), ..agent.settings().clone() };
    let contacts = vec![address("node-0:7400")];
    let mut agent = Agent::open(Time(0), AgentSettings { contacts, ..settings }).expect("opens").0;
    let (sent, _) = until(&mut agent, 10_000);
    assert!(matches!(sent[0].1.body, AgentBody::MapRequest { .. }));
    let now = nodes.now;
    let host = nodes.machines[0].agent.as_mut().expect("runs");
    let answers = host.handle(Time(now), AgentEvent::Received { bytes: &sent[0].1.encode() });
    let answer = answers.iter().find_map(|effect| match effect {
        AgentEffect::Send { to, bytes, .. } if *to == address("me:1") => Some(bytes.clone()),
        _ => None,
    });
    let effects = agent.handle(Time(20_000), AgentEvent::Received { bytes: &answer.expect("is answered") });
    assert!(effects.contains(&AgentEffect::Cluster(CLUSTER)), "{effects:?}");
}

#[test]
fn proposals_for_other_nodes_or_control_are_refused() {
    let mut nodes = formed(1, 1);
    keyspace(&mut nodes, 4);
    nodes.run(6 * SECOND);
    let (now, map) = (nodes.now, Arc::clone(&nodes.machines[0].map));
    let id = RequestId { origin: 77, number: 1 };
    let instance = map.nodes().nth(1).expect("is there").instances().next().expect("is there");
    let regroup = |by| {
        ControlCommand::Regroup(Regroup {
            keyspace: KeyspaceId(1),
            partition: PartitionId(0),
            epoch: PartitionEpoch(1),
            by,
            step: GroupStep::RaiseEpoch,
        })
    };
    let report = LogIndexReport { node: NodeId(2), incarnation: instance.incarnation, logs: Vec::new() };
    for command in [
        regroup(RegroupOrigin::Control),
        regroup(RegroupOrigin::Instance(instance.id, instance.incarnation)),
        ControlCommand::ReportLogs(report),
    ] {
        let body = AgentBody::Propose(CommandRequest { id, after: 0, command });
        let message = Message { cluster: CLUSTER, from: Some(address("foreign:1")), body };
        let host = nodes.machines[0].agent.as_mut().expect("runs");
        let effects = host.handle(Time(now), AgentEvent::Received { bytes: &message.encode() });
        let answer = effects.iter().find_map(|effect| match effect {
            AgentEffect::Send { to, bytes, .. } if *to == address("foreign:1") => Message::decode(bytes).ok(),
            _ => None,
        });
        match answer.expect("is answered").body {
            AgentBody::Answer { answer: ProposalAnswer::Decided(outcome), .. } => {
                assert_eq!(outcome.result, Err(CommandRefusal::NotControl));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn cloned_node_replaces_original_only_after_its_end() {
    let mut nodes = formed(3, 1);
    // The first process continues while another starts on a copy of its folder, at another address.
    let copy = nodes.copy(3);
    nodes.at(nodes.now + 1, SimulatedNodeEvent::Start { at: copy });
    nodes.run(nodes.now + 5 * SECOND);
    let joined = |nodes: &Nodes, at: usize| nodes.machines[at].agent.as_ref().is_some_and(Agent::has_joined);
    assert!(joined(&nodes, 3) && !joined(&nodes, copy));
    let start_in_map = |nodes: &Nodes| {
        let number = nodes.machines[3].number.expect("the map has it");
        nodes.machines[0].map.node(number).expect("is there").incarnation()
    };
    assert_eq!(start_in_map(&nodes), nodes.machines[3].incarnation);
    // Gossip detects the failure, even if the map does not have it yet.
    nodes.machines[3].agent = None;
    nodes.machines[3].life += 1;
    nodes.run(nodes.now + 3 * SECOND);
    assert!(joined(&nodes, copy));
    assert_eq!(start_in_map(&nodes), nodes.machines[copy].incarnation);
}

#[test]
fn manager_restarted_at_new_address_stays_in_control_group() {
    let mut nodes = formed(3, 1);
    // The leader moves too: another manager leads by then.
    let first = nodes.leader().expect("one leads");
    for at in [(first + 1) % 3, first] {
        let elsewhere = address(&format!("elsewhere-{at}:7400"));
        nodes.machines[at].address = elsewhere.clone();
        nodes.crash(at, 100_000);
        nodes.run(nodes.now + 6 * SECOND);
        let leader = nodes.leader().expect("one leads");
        let leader = nodes.machines[leader].agent.as_ref().expect("runs").manager().expect("leads");
        let managers = leader.state().managers();
        assert!(managers.iter().any(|one| one.addr == elsewhere), "{managers:?}");
        assert_eq!(managers.len(), 3);
    }
    assert!(nodes.machines.iter().all(|one| one.agent.as_ref().is_some_and(Agent::has_joined)));
}

#[test]
fn managers_at_new_addresses_find_each_other() {
    // The first addresses are at the beginning of the logs.
    let mut nodes = formed_with(Setting { log_entries_max: 1_000, ..setting(3, 1) });
    let before: Vec<Address> = nodes.machines.iter().map(|one| one.address.clone()).collect();
    let new: Vec<Address> = (0..3).map(|at| address(&format!("elsewhere-{at}:7400"))).collect();
    // At unused addresses; at the former addresses; and each at the former address of another
    // manager.
    let turned = [&before[1], &before[2], &before[0]].map(Address::clone).to_vec();
    for places in [&new, &before[..3].to_vec(), &turned] {
        for (machine, place) in nodes.machines.iter_mut().zip(places) {
            machine.address = place.clone();
        }
        nodes.moved = nodes.managers();
        (0..4).for_each(|at| nodes.crash(at, 100_000));
        // The next crash follows as soon as the addresses are decided, so that not all nodes have
        // stored them.
        let until = nodes.now + 8 * SECOND;
        let knows = |nodes: &Nodes| {
            let agent = nodes.leader().and_then(|leader| nodes.machines[leader].agent.as_ref());
            let state = agent.and_then(Agent::manager).map(|manager| manager.state());
            let have_joined =
                nodes.machines.iter().all(|one| one.agent.as_ref().is_some_and(Agent::has_joined));
            have_joined && state.is_some_and(|state| state.managers() == nodes.managers())
        };
        while nodes.now < until && !knows(&nodes) {
            nodes.run(nodes.now + 1_000);
        }
        assert!(knows(&nodes), "{places:?}");
    }
    nodes.run(nodes.now + 8 * SECOND);
    assert!(nodes.machines.iter().all(|one| one.agent.as_ref().is_some_and(Agent::has_joined)));
}

/// The answer of the leader, which is machine 0, to a request to join.
fn answer_to_join(nodes: &mut Nodes, now: u64, number: u64, join: JoinNode) -> Option<ProposalAnswer> {
    let from = join.manager.clone();
    let id = RequestId { origin: 77, number };
    let body = AgentBody::Propose(CommandRequest { id, after: 0, command: ControlCommand::Join(join) });
    let message = Message { cluster: CLUSTER, from: Some(from.clone()), body };
    let host = nodes.machines[0].agent.as_mut().expect("runs");
    let effects = host.handle(Time(now), AgentEvent::Received { bytes: &message.encode() });
    effects.iter().find_map(|effect| match effect {
        AgentEffect::Send { to, bytes, .. } if *to == from => match Message::decode(bytes).ok()?.body {
            AgentBody::Answer { answer, .. } => Some(answer),
            _ => None,
        },
        _ => None,
    })
}

#[test]
fn start_is_refused_while_another_process_of_the_node_answers() {
    // The leader itself, and another node.
    for node in [1, 2] {
        let mut nodes = formed(1, 1);
        let map = Arc::clone(&nodes.machines[0].map);
        let node = map.node(NodeId(node)).expect("is there");
        let join = |manager: &str, incarnation| JoinNode {
            node: Some(node.id()),
            replaces: node.incarnation(),
            incarnation: Incarnation(incarnation),
            manager: address(manager),
            instances: vec![address("other:2")],
            domain: 1,
            capacity: 1,
            intact: true,
            closed: false,
        };
        let mut number = 0;
        let mut query = |nodes: &mut Nodes, ms: u64, join| {
            number += 1;
            answer_to_join(nodes, nodes.now + ms * 1_000, number, join)
        };
        assert_eq!(query(&mut nodes, 0, join("other:1", 70)), Some(ProposalAnswer::Busy));
        assert_eq!(query(&mut nodes, 8_000, join("other:1", 70)), Some(ProposalAnswer::Busy));
        // The time for each start is counted separately.
        assert_eq!(query(&mut nodes, 9_000, join("other:1", 71)), Some(ProposalAnswer::Busy));
        let answer = query(&mut nodes, 19_500, join("other:1", 71));
        let Some(ProposalAnswer::Decided(outcome)) = answer else { panic!("{answer:?}") };
        let why = outcome.result.expect_err("is refused").to_string();
        assert!(why.contains("is served elsewhere") && why.contains("new-cluster"), "{why}");
    }
}

#[test]
fn an_operator_without_a_leader_is_answered_in_time_and_once() {
    let mut agent = lone_agent(&["m:1", "m:2"]);
    for token in 0..300 {
        let command = ControlCommand::RemoveNode(NodeId(1));
        let effects = agent.handle(Time(1_000), AgentEvent::Operate { token, command });
        let busy = AgentEffect::Answered { token, result: Err(NoOutcome::Busy) };
        assert_eq!(effects.contains(&busy), token >= 256, "{token}");
    }
    let (sent, effects) = until(&mut agent, 9 * SECOND);
    assert!(!effects.iter().any(|effect| matches!(effect, AgentEffect::Answered { .. })));
    let count_to = |contact: &str| sent.iter().filter(|(to, _)| *to == address(contact)).count();
    assert!(count_to("m:1") > 256 && count_to("m:2") > 256, "{} and {}", count_to("m:1"), count_to("m:2"));
    let (_, effects) = until(&mut agent, 11 * SECOND);
    for token in 0..256 {
        let timed_out = AgentEffect::Answered { token, result: Err(NoOutcome::TimedOut) };
        assert_eq!(effects.iter().filter(|effect| **effect == timed_out).count(), 1, "{token}");
    }
    assert!(agent.waits_for().expect("waits").contains("leader"));
}

/// The number of proposals that an agent sends at one moment after this message.
fn proposals_after(agent: &mut Agent, now: Time, bytes: &[u8]) -> usize {
    let effects = agent.handle(now, AgentEvent::Received { bytes });
    let sent =
        effects.into_iter().chain(agent.handle(now, AgentEvent::Tick)).filter_map(|effect| match effect {
            AgentEffect::Send { bytes, .. } => Message::decode(&bytes).ok(),
            _ => None,
        });
    sent.filter(|message| matches!(message.body, AgentBody::Propose(_))).count()
}

#[test]
fn duplicate_answer_causes_no_new_proposal() {
    let mut agent = lone_agent(&["m:1", "m:2"]);
    let command = ControlCommand::RemoveNode(NodeId(1));
    let effects = agent.handle(Time(1_000), AgentEvent::Operate { token: 1, command });
    let proposed = effects.iter().rev().find_map(|effect| match effect {
        AgentEffect::Send { to, bytes, .. } => match Message::decode(bytes).expect("is one").body {
            AgentBody::Propose(request) => Some((to.clone(), request.id)),
            _ => None,
        },
        _ => None,
    });
    let (from, id) = proposed.expect("asks a manager");
    let leader = address(if from == address("m:1") { "m:2" } else { "m:1" });
    let managers = [(1, from.clone()), (2, leader)].map(|(id, addr)| ManagerInfo { id: ManagerId(id), addr });
    let news = ControlGroupNews { applied_count: 1, managers: managers.to_vec(), leader: Some(ManagerId(2)) };
    let body = AgentBody::Answer { id, answer: ProposalAnswer::NotLeader, news };
    let bytes = Message { cluster: CLUSTER, from: Some(from), body }.encode();
    assert_eq!(proposals_after(&mut agent, Time(10_000), &bytes), 1, "it asks the leader");
    for _ in 0..10 {
        assert_eq!(proposals_after(&mut agent, Time(10_000), &bytes), 0, "and once");
    }
}

#[test]
fn repeated_instance_proposal_is_sent_once_and_stale_one_never() {
    let mut nodes = formed(1, 1);
    keyspace(&mut nodes, 4);
    nodes.run(6 * SECOND);
    let map = Arc::clone(&nodes.machines[1].map);
    let agent = nodes.machines[1].agent.as_mut().expect("runs");
    let node = map.node(agent.node().expect("has joined")).expect("is in the map");
    let instance: InstanceId = node.instances().next().expect("is there").id;
    let (keyspace, partition, group) = map.partitions_of(instance).next().expect("holds something");
    let mut query = |epoch, request| {
        let event = AgentEvent::InstanceProposes { instance, keyspace, partition, epoch, change: request };
        let effects = agent.handle(Time(nodes.now), event);
        let is_proposal = |effect: &&AgentEffect| match effect {
            AgentEffect::Send { bytes, .. } => {
                matches!(Message::decode(bytes), Ok(Message { body: AgentBody::Propose(_), .. }))
            }
            _ => false,
        };
        effects.iter().filter(is_proposal).count()
    };
    assert_eq!(query(group.epoch, GroupRequest::RaiseEpoch), 1);
    assert_eq!(query(group.epoch, GroupRequest::RaiseEpoch), 0, "is under way");
    assert_eq!(query(group.epoch, GroupRequest::Remove(InstanceId(9))), 1, "wants something else now");
    assert_eq!(query(PartitionEpoch(group.epoch.get() - 1), GroupRequest::RaiseEpoch), 0, "is past");
}

#[test]
fn bootstrap_member_waits_for_all_others() {
    let members: Vec<ManagerInfo> =
        (1..=3).map(|id| ManagerInfo { id: ManagerId(id), addr: address(&format!("m-{id}:1")) }).collect();
    let open = |at: usize, members: &[ManagerInfo]| {
        let control =
            ControlRole::Bootstrap { id: members[at].id, members: members.to_vec(), addresses: Vec::new() };
        let settings = AgentSettings::new(1, CLUSTER, Incarnation(9 + at as u64), members[at].addr.clone());
        Agent::open(Time(0), AgentSettings { control, ..settings }).expect("opens").0
    };
    let mut one = open(0, &members);
    let (sent, effects) = until(&mut one, 3 * SECOND);
    let waits = |effect: &AgentEffect| matches!(effect, AgentEffect::Log(LogNotice::Waits(what)) if what.contains("m-2:1, m-3:1"));
    assert!(one.manager().is_none() && effects.len() == 1 && waits(&effects[0]), "{effects:?}");
    assert!(one.waits_for().expect("waits").contains("m-2:1, m-3:1"));
    // An answer of the second manager is not enough; the third completes the group.
    let query = sent.iter().find(|(to, _)| *to == members[1].addr).expect("is asked").1.encode();
    for (at, is_bootstrapped) in [(1, false), (2, true)] {
        let mut other = open(at, &members);
        let answers = other.handle(Time(0), AgentEvent::Received { bytes: &query });
        for effect in answers {
            if let AgentEffect::Send { to, bytes, .. } = effect
                && to == members[0].addr
            {
                one.handle(Time(4 * SECOND), AgentEvent::Received { bytes: &bytes });
            }
        }
        assert_eq!(one.manager().is_some(), is_bootstrapped);
    }
    assert!(open(0, &members[..1]).handle(Time(0), AgentEvent::Tick).len() > 1);
    // An agent whose folder has a node number was in the cluster before, and so has lost its log.
    let control =
        ControlRole::Bootstrap { id: members[0].id, members: members.clone(), addresses: Vec::new() };
    let settings = AgentSettings::new(1, CLUSTER, Incarnation(9), members[0].addr.clone());
    let refused = Agent::open(Time(0), AgentSettings { control, node: Some(NodeId(1)), ..settings });
    assert!(refused.err().expect("is refused").to_string().contains("lost"));
}

/// The messages for `receiver` among the effects.
fn sent_to(effects: &[AgentEffect], receiver: &Address) -> Vec<Vec<u8>> {
    let to_it = effects.iter().filter_map(|effect| match effect {
        AgentEffect::Send { to, bytes, .. } if to == receiver => Some(bytes.clone()),
        _ => None,
    });
    to_it.collect()
}

/// Delivers messages and answers between the two agents until neither sends any.
fn exchange(now: Time, (one, other): (&mut Agent, &mut Agent), effects: &[AgentEffect]) -> Vec<AgentEffect> {
    let own = one.settings().manager.clone();
    let mut sent = sent_to(effects, &other.settings().manager);
    let mut of_one = Vec::new();
    for _ in 0..20 {
        let answers: Vec<AgentEffect> =
            sent.iter().flat_map(|bytes| other.handle(now, AgentEvent::Received { bytes })).collect();
        let received = sent_to(&answers, &own);
        let effects: Vec<AgentEffect> =
            received.iter().flat_map(|bytes| one.handle(now, AgentEvent::Received { bytes })).collect();
        sent = sent_to(&effects, &other.settings().manager);
        of_one.extend(effects);
    }
    of_one
}

#[test]
fn bootstrap_member_with_lost_requests_is_not_refused() {
    let members: Vec<ManagerInfo> =
        (1..=3).map(|id| ManagerInfo { id: ManagerId(id), addr: address(&format!("m-{id}:1")) }).collect();
    let open = |at: usize, incarnation: u64| {
        let control =
            ControlRole::Bootstrap { id: members[at].id, members: members.clone(), addresses: Vec::new() };
        let settings = AgentSettings::new(1, CLUSTER, Incarnation(incarnation), members[at].addr.clone());
        Agent::open(Time(0), AgentSettings { control, ..settings }).expect("opens").0
    };
    let tick = |agent: &mut Agent, now: Time| agent.handle(now, AgentEvent::Tick);
    let (mut one, mut two, mut three) = (open(0, 11), open(1, 12), open(2, 13));
    // All learn of each other, except the first of the third: the second bootstraps, and then the
    // first on its evidence.
    let effects = tick(&mut three, Time(1_000));
    for bytes in sent_to(&effects, &members[1].addr) {
        two.handle(Time(1_000), AgentEvent::Received { bytes: &bytes });
    }
    let effects = tick(&mut one, Time(2_000));
    exchange(Time(2_000), (&mut one, &mut two), &effects);
    let effects = tick(&mut two, Time(200_000));
    exchange(Time(200_000), (&mut two, &mut one), &effects);
    let effects = tick(&mut one, Time(SECOND));
    exchange(Time(SECOND), (&mut one, &mut two), &effects);
    let bootstrapped = [&one, &two, &three].map(|agent| agent.manager().is_some());
    assert_eq!(bootstrapped, [true, true, false]);
    // The first has no direct message of the third yet.
    let effects = tick(&mut three, Time(SECOND));
    let effects = exchange(Time(SECOND), (&mut three, &mut one), &effects);
    assert!(!effects.iter().any(|effect| matches!(effect, AgentEffect::Ended(_))), "{effects:?}");
    assert!(three.manager().is_some());
    // Another start of the third, without a log, means that the log is lost.
    for by in [&mut one, &mut two] {
        let mut again = open(2, 14);
        let effects = tick(&mut again, Time(2 * SECOND));
        let effects = exchange(Time(2 * SECOND), (&mut again, by), &effects);
        let lost = AgentEffect::Ended(EndReason::BootstrappedBefore { by: by.settings().manager.clone() });
        assert!(effects.contains(&lost), "{effects:?}");
    }
}

/// The primaries of a node that stops cleanly move long before a failure detector would notice.
#[test]
fn clean_stop_moves_primaries_at_once_even_from_the_leader() {
    for (leads, is_manager) in [(true, true), (false, true), (false, false)] {
        let mut nodes = formed(3, 1);
        keyspace(&mut nodes, 16);
        nodes.run(6 * SECOND);
        let leader = nodes.leader().expect("leads");
        let at = match is_manager {
            true if leads => leader,
            true => (leader + 1) % 3,
            false => 3,
        };
        let map =
            |nodes: &Nodes, at: usize| Arc::clone(nodes.machines[at].agent.as_ref().expect("runs").map());
        let node = nodes.machines[at].agent.as_ref().and_then(Agent::node).expect("has joined");
        nodes.handle_event(at, AgentEvent::Leave);
        let mut now = 6 * SECOND;
        while map(&nodes, at).node(node).expect("stays in the map").state() != NodeState::Down {
            now += 10_000;
            nodes.run(now);
            assert!(now < 6 * SECOND + 300_000, "it is not seen to leave; it leads: {leads}");
        }
        let map = map(&nodes, at);
        let holds = |primary: InstanceId| map.instance(primary).expect("is in the map").node == node;
        let left = map.keyspaces().flat_map(|(_, found)| found.groups().map(|(_, group)| group.primary));
        assert_eq!(left.filter(|primary| holds(*primary)).count(), 0);
    }
}

/// A leader that the map has as down receives no report about itself, but knows that it is up.
#[test]
fn leader_marked_down_in_the_map_returns_to_up() {
    let mut nodes = formed(3, 0);
    let leader = nodes.leader().expect("leads");
    let agent = nodes.machines[leader].agent.as_ref().expect("runs");
    let node = agent.node().expect("has joined");
    let state = |nodes: &Nodes, at: usize| {
        let map = Arc::clone(nodes.machines[at].agent.as_ref().expect("runs").map());
        map.node(node).map(|known| (known.state(), known.incarnation()))
    };
    let (_, incarnation) = state(&nodes, leader).expect("is in the map");
    nodes.operate(leader, ControlCommand::SetNodeState { node, incarnation, state: NodeState::Down });
    let mut now = 4 * SECOND;
    while state(&nodes, leader) != Some((NodeState::Down, incarnation)) {
        now += 10_000;
        nodes.run(now);
        assert!(now < 6 * SECOND, "it is not down");
    }
    nodes.run(now + 5 * SECOND);
    assert_eq!(nodes.leader(), Some(leader));
    assert_eq!(state(&nodes, leader), Some((NodeState::Up, incarnation)));
}
