//! Nodes that gossip over a network that loses datagrams: dead nodes are noticed in time, live nodes are not
//! suspected.

use std::collections::BTreeMap;

use foca::Codec as _;
use proptest::prelude::*;
use zerohop_placement::{Address, ClusterMap, MapChange, MapDelta, Node, NodeState};
use zerohop_wire::ids::InstanceId;

use super::codec::Fields;
use super::*;
use crate::golden::{assert_golden, pinned_bytes};

/// A cluster of nodes that only gossip, under one clock in microseconds.
struct Field {
    now: u64,
    map: ClusterMap,
    nodes: Vec<Option<Gossip>>,
    event_queue: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    order: u64,
    random: SplitMix64,
    loss_per_mille: u64,
    /// When each node gets a processor next, if there are too few: it does nothing in between.
    slots: Option<Vec<u64>>,
    /// The verdicts: time, reporting node, node, whether it answers.
    verdicts: Vec<(u64, usize, NodeId, bool)>,
}

impl Field {
    fn new(nodes: u32, loss_per_mille: u64, seed: u64) -> Field {
        let address = |text: &str| Address::new(text).unwrap();
        let put = (0..nodes).map(|id| {
            MapChange::PutNode(Node {
                id: NodeId(id),
                state: NodeState::Up,
                incarnation: Incarnation(u64::from(id) + 100),
                manager: address(&format!("n{id}:1")),
                first_instance: InstanceId(id),
                instances: vec![address(&format!("n{id}:2"))],
            })
        });
        let delta = MapDelta { from: MapEpoch(0), to: MapEpoch(1), changes: put.collect() };
        let map = ClusterMap::default().apply(&delta).unwrap();
        let mut random = SplitMix64::new(seed);
        let gossip = |id: u32, seed| Some(start(id, 0, Time(0), seed));
        let nodes = (0..nodes).map(|id| gossip(id, random.next_u64())).collect();
        let (event_queue, verdicts) = (BTreeMap::new(), Vec::new());
        Field { now: 0, map, nodes, event_queue, order: 0, random, loss_per_mille, slots: None, verdicts }
    }

    fn run(&mut self, until: u64) {
        loop {
            let wake = |node: &Option<Gossip>| node.as_ref().map_or(u64::MAX, |gossip| gossip.tick_due().0);
            let (at, due) =
                self.nodes.iter().map(wake).enumerate().min_by_key(|(_, due)| *due).unwrap_or((0, u64::MAX));
            let message = self.event_queue.first_key_value().map_or(u64::MAX, |((time, _), _)| *time);
            if due.min(message) > until {
                self.now = until;
                return;
            }
            self.now = self.now.max(due.min(message));
            let now = Time(self.now);
            let (at, effects) = if message <= due {
                let Some((_, (to, bytes))) = self.event_queue.pop_first() else { return };
                (to, self.nodes[to].as_mut().map(|node| node.receive(now, &bytes)))
            } else {
                (at, self.nodes[at].as_mut().map(|node| node.tick(now, &self.map)))
            };
            for effect in effects.unwrap_or_default() {
                match effect {
                    GossipEffect::Send { to, bytes } => self.send(to, bytes),
                    GossipEffect::Verdict { node, alive, .. } => {
                        self.verdicts.push((self.now, at, node, alive));
                    }
                }
            }
        }
    }

    /// Nodes that get a processor only now and then: they first see the time, and then the datagrams that
    /// have arrived meanwhile.
    fn run_in_slots(&mut self, until: u64, pauses: &std::ops::Range<u64>) {
        while self.now < until {
            let slots = self.slots.get_or_insert_with(|| vec![self.now; self.nodes.len()]);
            let Some((at, slot)) = slots.iter().copied().enumerate().min_by_key(|(_, slot)| *slot) else {
                return;
            };
            slots[at] = slot + self.random.between(pauses.start, pauses.end);
            self.now = slot;
            let waiting: Vec<_> = self
                .event_queue
                .iter()
                .filter(|((time, _), (to, _))| *time <= slot && *to == at)
                .map(|(key, _)| *key)
                .collect();
            let Some(node) = self.nodes[at].as_mut() else {
                waiting.iter().for_each(|key| drop(self.event_queue.remove(key)));
                continue;
            };
            let mut effects = node.tick(Time(slot), &self.map);
            for (_, bytes) in waiting.iter().filter_map(|key| self.event_queue.remove(key)) {
                effects.extend(node.receive(Time(slot), &bytes));
                effects.extend(node.tick(Time(slot), &self.map));
            }
            for effect in effects {
                match effect {
                    GossipEffect::Send { to, bytes } => self.send(to, bytes),
                    GossipEffect::Verdict { node, alive, .. } => self.verdicts.push((slot, at, node, alive)),
                }
            }
        }
    }

    fn send(&mut self, to: NodeId, bytes: Vec<u8>) {
        assert!(bytes.len() <= GOSSIP_DATAGRAM_BYTES_MAX);
        if self.random.between(0, 1000) >= self.loss_per_mille {
            self.order += 1;
            let time = self.now + self.random.between(100, 5_000);
            self.event_queue.insert((time, self.order), (to.get() as usize, bytes));
        }
    }

    fn downs(&self) -> usize {
        self.verdicts.iter().filter(|(_, _, _, alive)| !alive).count()
    }
}

fn start(id: u32, since: u64, now: Time, seed: u64) -> Gossip {
    let incarnation = Incarnation(u64::from(id) + 100 + since);
    let name = Name { node: NodeId(id), incarnation, since: MapEpoch(since), renewals: 0 };
    Gossip::new(now, name, GossipSettings::default(), seed)
}

/// ARCHITECTURE.md, "A failover, step by step": a new primary answers within two seconds; gossip may use half of them.
#[test]
fn dead_node_is_detected_within_a_second_despite_ten_percent_loss() {
    for (nodes, loss) in [(3, 0), (5, 0), (3, 100), (5, 100), (12, 100)] {
        for seed in 0..12 {
            let mut field = Field::new(nodes, loss, seed);
            field.run(5_000_000 + seed * 37_000);
            assert_eq!(
                field.downs(),
                0,
                "{nodes} nodes, {loss} per mille lost, seed {seed}: a living one is dead"
            );
            let all = nodes as usize - 1;
            for node in field.nodes.iter().flatten() {
                assert_eq!(node.alive().len(), all, "all nodes are known");
            }
            let died = field.now;
            field.nodes[1] = None;
            field.run(died + 1_000_000);
            let reporters =
                field.verdicts.iter().filter(|(_, _, node, alive)| !alive && *node == NodeId(1)).count();
            assert_eq!(
                reporters, all,
                "{nodes} nodes, {loss} per mille lost, seed {seed}: {reporters} report it"
            );
            assert_eq!(field.downs(), reporters, "no other node");
        }
    }
}

#[test]
fn live_nodes_are_never_suspected_despite_ten_percent_loss() {
    for (nodes, seed) in [(3, 1), (7, 2)] {
        let mut field = Field::new(nodes, 100, seed);
        field.run(120_000_000);
        assert_eq!(field.downs(), 0, "{nodes} nodes");
    }
}

#[test]
fn restarted_node_is_a_new_member_and_is_accepted() {
    let mut field = Field::new(4, 0, 3);
    field.run(3_000_000);
    field.nodes[2] = None;
    field.run(3_200_000);
    // Before any node has noticed.
    field.nodes[2] = Some(start(2, 9, Time(field.now), 77));
    field.run(6_000_000);
    for (at, node) in field.nodes.iter().enumerate().filter(|(at, _)| *at != 2) {
        let answers = node.as_ref().unwrap().answers(NodeId(2));
        assert_eq!(answers, Some(Incarnation(111)), "as node {at} knows");
    }
}

#[test]
fn wrongly_suspected_node_is_accepted_again() {
    let mut field = Field::new(4, 0, 4);
    field.run(3_000_000);
    // The node is paused: it does nothing, and datagrams to it are lost.
    let paused = field.nodes[3].take();
    field.run(6_000_000);
    assert_eq!(field.downs(), 3);
    field.nodes[3] = paused;
    field.run(10_000_000);
    for node in &field.nodes[..3] {
        assert_eq!(node.as_ref().unwrap().answers(NodeId(3)), Some(Incarnation(103)));
    }
}

#[test]
fn slow_node_suspects_no_live_node_but_detects_dead_ones() {
    for (pauses, most_ms) in
        [(100_000..300_000, 5_000), (200_000..600_000, 9_000), (500_000..800_000, 16_000)]
    {
        for seed in 0..20 {
            let mut field = Field::new(3, 0, seed);
            field.run(3_000_000);
            field.run_in_slots(23_000_000, &pauses);
            assert_eq!(field.downs(), 0, "{pauses:?} us, seed {seed}: a living one is dead");
            field.nodes[1] = None;
            let died = field.now;
            while field.downs() == 0 {
                field.run_in_slots(field.now + 100_000, &pauses);
                let after_ms = (field.now - died) / 1_000;
                assert!(after_ms < most_ms, "{pauses:?} us, seed {seed}: not noticed after {after_ms} ms");
            }
            assert!(field.verdicts.iter().all(|(_, _, node, alive)| *alive || *node == NodeId(1)));
        }
    }
}

#[test]
fn a_seed_replays() {
    let play = |seed| {
        let mut field = Field::new(5, 100, seed);
        field.run(2_000_000);
        field.nodes[0] = None;
        field.run(4_000_000);
        (field.verdicts, field.order)
    };
    assert_eq!(play(5), play(5));
    assert_ne!(play(5).1, play(6).1);
}

/// A header of each kind, and a member in each state.
#[test]
fn datagrams_match_golden_bytes_and_decode() {
    const PINNED: &str = include_str!("golden/datagrams.hex");
    let name = |node, renewals| Name {
        node: NodeId(node),
        incarnation: Incarnation(0x0102_0304_0506_0708),
        since: MapEpoch(0x0901),
        renewals,
    };
    let (one, probe_number) = (name(7, 0), 9);
    let says = [
        foca::Message::Ping(probe_number),
        foca::Message::Ack(probe_number),
        foca::Message::PingReq { target: one, probe_number },
        foca::Message::IndirectPing { origin: one, probe_number },
        foca::Message::IndirectAck { target: one, probe_number },
        foca::Message::ForwardedAck { origin: one, probe_number },
        foca::Message::Announce,
        foca::Message::Feed,
        foca::Message::Gossip,
        foca::Message::Broadcast,
        foca::Message::TurnUndead,
    ];
    let header = |message| foca::Header { src: name(5, 1), src_incarnation: 3, dst: name(6, 0), message };
    let states = [foca::State::Alive, foca::State::Suspect, foca::State::Down];
    let member = |state| foca::Member::new(name(8, 2), 4, state);
    let headers = says.iter().map(|says| {
        let mut bytes = Vec::new();
        Fields.encode_header(&header(says.clone()), &mut bytes).unwrap();
        (format!("{says:?}"), bytes)
    });
    let members = states.iter().map(|state| {
        let mut bytes = Vec::new();
        Fields.encode_member(&member(*state), &mut bytes).unwrap();
        (format!("{state:?}"), bytes)
    });
    assert_golden(PINNED, headers.chain(members));
    let pinned: Vec<Vec<u8>> = pinned_bytes(PINNED).collect();
    let (headers, members) = pinned.split_at(says.len());
    for (says, bytes) in says.into_iter().zip(headers) {
        assert_eq!(Fields.decode_header(&bytes[..]), Ok(header(says)));
    }
    for (state, bytes) in states.into_iter().zip(members) {
        assert_eq!(Fields.decode_member(&bytes[..]), Ok(member(state)));
    }
}

proptest! {
    #[test]
    fn random_datagrams_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut gossip = start(1, 0, Time(0), 1);
        gossip.receive(Time(1), &bytes);
        // Also behind a valid header.
        let mut other = start(2, 0, Time(0), 2);
        let map = Field::new(3, 0, 1).map;
        for effect in other.tick(Time(1), &map) {
            if let GossipEffect::Send { mut bytes, .. } = effect {
                bytes.extend_from_slice(&bytes.clone());
                gossip.receive(Time(2), &bytes);
            }
        }
    }
}
