//! Which nodes answer: this node's part in gossip, and the verdicts that its manager gets. Gossip has no
//! verdict on a node that it has never heard of, as after a restart of all nodes. A manager considers such a
//! node dead after a while.

use std::collections::BTreeMap;
use std::sync::Arc;

use zerohop_placement::{Address, NodeState};
use zerohop_wire::ids::{Incarnation, MapEpoch, NodeId};

use super::Agent;
use super::AgentEffect;
use super::message::{AgentBody, Message};
use crate::command::ManagerInfo;
use crate::gossip::{Gossip, GossipEffect, Name};
use crate::manager;
use crate::planted::{Bug, is_planted};
use zerohop_base::time::Time;

/// Time between two checks for nodes that nothing was heard of.
const CHECK_MS: u64 = 250;

/// Additional patience for each node of the map: a datagram names some dozens of nodes, so it takes a while
/// to hear of thousands.
const EACH_NODE_MS: u64 = 20;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct SilentNodes {
    /// Nodes that are up in the map and do not answer.
    pub(super) since: BTreeMap<NodeId, (Incarnation, Time)>,
    next: Time,
}

impl Agent {
    pub(super) fn begin_gossip(&mut self, node: NodeId, since: MapEpoch) {
        let name = Name { node, incarnation: self.settings.incarnation, since, renewals: 0 };
        let seed = self.stream.next_u64();
        self.gossip = Some(Gossip::new(self.now, name, self.settings.gossip, seed));
    }

    pub(super) fn listen_to(&mut self, bytes: &[u8]) {
        if let Some(gossip) = &mut self.gossip {
            let effects = gossip.receive(self.now, bytes);
            self.gossiped(effects);
        }
    }

    pub(super) fn tick_failure_detector(&mut self) {
        let map = Arc::clone(self.map());
        let Some(gossip) = &mut self.gossip else { return };
        if gossip.tick_due() <= self.now {
            let effects = gossip.tick(self.now, &map);
            self.gossiped(effects);
        }
        // A node outside the control group runs this check only when gossip wakes it.
        if self.silent.next <= self.now {
            self.silent.next = self.now.after_ms(CHECK_MS);
            self.check_silent_nodes();
        }
    }

    /// This node leaves. If it leads, it first transfers leadership to another manager, because nothing is
    /// decided during an election. Then it announces to all nodes that it leaves, which makes it be down in
    /// the map.
    pub(super) fn leave(&mut self) {
        let Some(gossip) = self.gossip.take() else { return };
        if self.is_leader() {
            let map = Arc::clone(self.map());
            let answers = |manager: &&ManagerInfo| {
                let at = |node: &zerohop_placement::NodeRef<'_>| node.manager() == manager.addr.as_str();
                let node = map.nodes().find(at).map(|node| (node.id(), node.incarnation()));
                manager.addr != self.settings.manager
                    && node.is_some_and(|(id, incarnation)| gossip.answers(id) == Some(incarnation))
            };
            let heir = self.group.managers.iter().find(answers).map(|manager| manager.id);
            if let Some(heir) = heir {
                self.notify_manager(manager::ManagerEvent::TransferLeadership(heir));
            }
        }
        let effects = gossip.leave(self.now);
        self.gossiped(effects);
        self.fetch_soon();
    }

    /// Whether this node has announced that it leaves.
    pub(super) fn is_leaving(&self) -> bool {
        self.has_joined() && self.gossip.is_none()
    }

    pub(super) fn failure_detector_due(&self) -> Time {
        let Some(gossip) = &self.gossip else { return Time::NEVER };
        let silent = if self.manager.is_some() { self.silent.next } else { Time::NEVER };
        gossip.tick_due().min(silent)
    }

    fn gossiped(&mut self, effects: Vec<GossipEffect>) {
        for effect in effects {
            match effect {
                GossipEffect::Send { to, bytes } => self.send_datagram(to, bytes),
                GossipEffect::Verdict { node, incarnation, alive } => {
                    self.notify_manager(manager::ManagerEvent::Verdict { node, incarnation, alive });
                }
            }
        }
    }

    fn send_datagram(&mut self, to: NodeId, bytes: Vec<u8>) {
        let to = self.map().node(to).and_then(|node| Address::new(node.manager()).ok());
        if let Some(to) = to {
            let message = Message { cluster: self.cluster, from: None, body: AgentBody::Gossip(bytes) };
            self.effects.push(AgentEffect::Send { to, bytes: message.encode(), datagram: true });
        }
    }

    fn check_silent_nodes(&mut self) {
        let map = Arc::clone(self.map());
        let Some(gossip) = &self.gossip else { return };
        let patience_ms = self.settings.silent_ms + EACH_NODE_MS * map.nodes().len() as u64;
        let mut silent = BTreeMap::new();
        let mut dead = Vec::new();
        for node in map.nodes().filter(|node| node.state() != NodeState::Down) {
            let (id, incarnation) = (node.id(), node.incarnation());
            if Some(id) == self.own_node() || gossip.answers(id) == Some(incarnation) {
                continue;
            }
            let before = self.silent.since.get(&id).filter(|(of, _)| *of == incarnation);
            let since = before.map_or(self.now, |(_, since)| *since);
            silent.insert(id, (incarnation, since));
            if self.now.since_us(since) >= patience_ms * 1000 && !is_planted(Bug::UnseenNodeNotDeclaredDead) {
                dead.push((id, incarnation));
            }
        }
        self.silent.since = silent;
        for (node, incarnation) in dead {
            self.notify_manager(manager::ManagerEvent::Verdict { node, incarnation, alive: false });
        }
        // No other node reports this manager's own node to it: without this verdict, a leader whose node is
        // down in the map would keep it down permanently.
        let own = self.own_node().and_then(|own| map.node(own));
        if let Some(own) = own.filter(|own| own.state() == NodeState::Down)
            && own.incarnation() == self.settings.incarnation
        {
            let (node, incarnation) = (own.id(), own.incarnation());
            self.notify_manager(manager::ManagerEvent::Verdict { node, incarnation, alive: true });
        }
    }
}
