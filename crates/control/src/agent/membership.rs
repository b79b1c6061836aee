//! The agent of a member of the control group: the effects of its manager, and messages between managers, in
//! pieces if they are long.

use std::collections::BTreeMap;

use zerohop_placement::Address;

use super::message::{AgentBody, ControlGroupNews};
use super::proposals::ProposalPurpose;
use super::{Agent, AgentEffect, EndReason};
use crate::command::{ControlCommand, ManagerId, ManagerInfo};
use crate::limits::{MESSAGES_PIECED_MAX, NEW_CLUSTER_COUNTER_JUMP, PIECE_BYTES};
use crate::manager::{self, RaftManager, RequestAnswer};

/// Time between two proposals of changed manager addresses.
const PLACING_MS: u64 = 1_000;

/// Messages of managers that have arrived in part.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// Number of messages sent.
    sent: u64,
    /// One message per manager; a newer message replaces it.
    coming: BTreeMap<ManagerId, PartialRaftMessage>,
}

#[derive(Debug)]
struct PartialRaftMessage {
    number: u64,
    pieces: u32,
    there: BTreeMap<u32, Vec<u8>>,
}

impl Pieces {
    /// Adds a piece. Returns the complete message if this was the last missing piece.
    fn add(
        &mut self,
        from: ManagerId,
        (number, piece, pieces): (u64, u32, u32),
        bytes: Vec<u8>,
    ) -> Option<Vec<u8>> {
        if pieces == 1 {
            return Some(bytes);
        }
        let is_new = self.coming.get(&from).is_none_or(|coming| coming.number < number);
        if is_new {
            if self.coming.len() >= MESSAGES_PIECED_MAX && !self.coming.contains_key(&from) {
                self.coming.pop_first();
            }
            self.coming.insert(from, PartialRaftMessage { number, pieces, there: BTreeMap::new() });
        }
        let coming = self.coming.get_mut(&from)?;
        if coming.number != number || coming.pieces != pieces {
            return None;
        }
        coming.there.insert(piece, bytes);
        if coming.there.len() < pieces as usize {
            return None;
        }
        let there = self.coming.remove(&from)?.there;
        Some(there.into_values().collect::<Vec<_>>().concat())
    }
}

/// Counts persist effects over all the managers that a node has had.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PersistCounter {
    /// The effects of earlier managers.
    base: u64,
    last: u64,
}

impl PersistCounter {
    /// A new manager starts its own count.
    fn begin(&mut self) {
        self.base = self.last + 1;
    }
}

impl Agent {
    fn persist(&mut self, number: u64, bytes: Vec<u8>, replace: bool) {
        let number = self.persists.base + number;
        self.persists.last = self.persists.last.max(number);
        self.effects.push(AgentEffect::Persist { number, bytes, replace });
    }

    pub(super) fn persisted(&mut self, number: u64) {
        if let Some(number) = number.checked_sub(self.persists.base) {
            self.notify_manager(manager::ManagerEvent::Persisted(number));
        }
    }

    /// Passes an event to the manager, if this node has one.
    pub(super) fn notify_manager(&mut self, event: manager::ManagerEvent<'_>) {
        let Some(manager) = self.manager.as_mut() else { return };
        let effects = manager.handle(self.now, event);
        self.perform_manager_effects(effects);
    }

    /// Installs a manager that was just opened.
    pub(super) fn install_manager(&mut self, mut manager: RaftManager) {
        let effects = manager.take_effects();
        self.manager = Some(manager);
        self.last_manager = self.manager.as_ref().map(RaftManager::id);
        self.perform_manager_effects(effects);
    }

    /// Whether the manager of this node leads.
    pub(super) fn is_leader(&self) -> bool {
        self.manager.as_ref().is_some_and(|manager| manager.leading().is_some())
    }

    /// Carries out effects of the manager. This must not pass events to the manager: the resulting effects
    /// would precede the remaining ones.
    fn perform_manager_effects(&mut self, effects: Vec<manager::ManagerEffect>) {
        for effect in effects {
            match effect {
                manager::ManagerEffect::Persist { number, bytes, replace } => {
                    self.persist(number, bytes, replace);
                }
                manager::ManagerEffect::Send { to, bytes } => self.send_to_manager(to, &bytes),
                manager::ManagerEffect::Answer { token, answer } => self.manager_answers(token, answer),
                manager::ManagerEffect::MapChanged(delta) => self.follow(&delta),
                manager::ManagerEffect::MapReplaced(map) => self.replace_map(&map),
                manager::ManagerEffect::WritesMayBeLost { keyspace, partition } => {
                    self.effects.push(AgentEffect::WritesMayBeLost { keyspace, partition });
                }
            }
        }
        self.learn_from_manager();
    }

    /// What this node's manager knows needs no message.
    fn learn_from_manager(&mut self) {
        let Some(manager) = self.manager.as_ref() else { return };
        let (state, leader) = (manager.state(), manager.leader());
        let (mark, map) = (state.applied_count(), state.map().clone());
        // A list from before this start must not be used: it may have an old address to which a manager has
        // moved back.
        if self.start_applied_count.is_some_and(|looked| mark >= looked) {
            self.group.drop_decided_moves(state.managers());
        }
        let news = (mark > self.group.applied_count).then(|| ControlGroupNews {
            applied_count: mark,
            managers: state.managers().to_vec(),
            leader,
        });
        if leader != self.manager_leader {
            self.manager_leader = leader;
            self.group.leader = leader;
        }
        if let Some(news) = news {
            self.apply_news(&news);
        }
        // The manager may have installed a snapshot, or be behind the leader's messages to this node.
        self.replace_map(&map);
        self.maps.applied_count = self.maps.applied_count.max(mark);
    }

    fn manager_answers(&mut self, token: u64, answer: RequestAnswer) {
        let number = token >> 1;
        if token & 1 == 0 {
            let me = self.settings.manager.clone();
            self.answered(number, answer, &me);
        } else {
            self.answer_forwarded(number, answer);
        }
    }

    fn send_to_manager(&mut self, to: ManagerId, bytes: &[u8]) {
        let Some(from) = self.manager.as_ref().map(RaftManager::id) else { return };
        let listed = self.manager.as_ref().and_then(|manager| {
            let managers = manager.state().managers();
            managers.iter().find(|one| one.id == to).map(|one| one.addr.clone())
        });
        // A manager that has moved is contacted at its new address. A new member knows no addresses until it
        // has the state: it answers to the address from which it was contacted.
        let moved = self.group.moved_to(to).cloned();
        let Some(address) = moved.or(listed).or_else(|| self.group.address_of(to).cloned()) else { return };
        self.pieces.sent += 1;
        let number = self.pieces.sent;
        let pieces = bytes.len().div_ceil(PIECE_BYTES) as u32;
        for (piece, bytes) in (0..).zip(bytes.chunks(PIECE_BYTES)) {
            let bytes = bytes.to_vec();
            self.send(&address, AgentBody::Raft { from, to, number, piece, pieces, bytes });
        }
    }

    /// The list of managers has changed. After a forced new cluster a manager that the list does not name gives
    /// up its membership at once. Its log stays, so that it never promises anything twice. In other cases the list
    /// alone is no reason: the leader removes managers one at a time, and needs their votes until then (see
    /// `give_up_lost_membership`). A node that was added becomes a member, once.
    pub(super) fn managers_changed(&mut self) {
        let managers = &self.group.managers;
        let is_named = |id: ManagerId| managers.iter().any(|one| one.id == id);
        // The jump began at the count of the manager that survived, and this one may have decided more.
        if let Some(manager) = &self.manager
            && self.group.applied_count >= manager.state().applied_count() + NEW_CLUSTER_COUNTER_JUMP / 2
            && !is_named(manager.id())
        {
            self.manager = None;
            self.manager_leader = None;
        }
        let Some(node) = self.own_node() else { return };
        let is_mine =
            |one: &&ManagerInfo| one.addr == self.settings.manager && manager::node_of(one.id) == Some(node);
        let mine = self.group.managers.iter().find(is_mine).map(|one| one.id);
        if let Some(id) = mine
            // An id is assigned once, and the ids of one node only rise: this manager has promised nothing
            // yet.
            && self.manager.is_none()
            && self.last_manager.is_none_or(|last| last < id)
            && self.bootstrap.is_none()
        {
            let log = RaftManager::join(id);
            match RaftManager::open(self.now, &log, self.manager_settings()) {
                Ok((manager, _)) => {
                    self.persists.begin();
                    self.persist(0, log, true);
                    self.install_manager(manager);
                }
                Err(error) => self.end(EndReason::Refused { reason: error.to_string() }),
            }
        }
    }

    /// The leader updates the addresses in the list of managers. It uses its own address, the new addresses
    /// of managers that have moved, and addresses from which it was contacted if they belong to a node that
    /// has joined. A process at any other address may be a copy of that manager.
    pub(super) fn tick_addresses(&mut self) {
        if !self.is_leader() || self.now < self.next_placing {
            return;
        }
        let Some(manager) = self.manager.as_ref() else { return };
        let (own, listed) = (manager.id(), manager.state().managers());
        let map = manager.state().map();
        let is_joined = |at: &&Address| map.nodes().any(|node| node.manager() == at.as_str());
        let place = |one: &ManagerInfo| {
            let seen_at = || self.group.last_address(one.id).filter(is_joined);
            let at = match one.id == own {
                true => Some(&self.settings.manager),
                false => self.group.moved_to(one.id).or_else(seen_at),
            };
            ManagerInfo { id: one.id, addr: at.unwrap_or(&one.addr).clone() }
        };
        let placed: Vec<ManagerInfo> = listed.iter().map(place).collect();
        if placed == listed {
            return;
        }
        let until = self.now.after_ms(PLACING_MS);
        self.next_placing = until;
        self.propose(ProposalPurpose::UpdateAddresses, ControlCommand::SetManagers(placed), until);
    }

    /// A message of another manager, or a piece of one.
    pub(super) fn handle_manager_message(
        &mut self,
        (from, to): (ManagerId, ManagerId),
        piece: (u64, u32, u32),
        bytes: Vec<u8>,
        at: &Address,
    ) {
        let is_member = |manager: &RaftManager| {
            let (voters, learners) = manager.members();
            voters.iter().chain(&learners).any(|one| *one == from)
        };
        let is_meant = self.manager.as_ref().is_some_and(|manager| manager.id() == to);
        if self.is_leader() && (!is_meant || !self.manager.as_ref().is_some_and(is_member)) {
            // The sender is no member any more, or addresses a manager that does not exist any more: the
            // leader sends it the list of managers.
            self.send_epoch(at, self.map().epoch());
        }
        if !is_meant {
            return;
        }
        self.group.record_address(from, at);
        if let Some(bytes) = self.pieces.add(from, piece, bytes) {
            self.notify_manager(manager::ManagerEvent::Received { from, bytes: &bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_put_together_whatever_their_order_and_not_with_those_of_another_message() {
        let mut pieces = Pieces::default();
        let (one, other) = (ManagerId(1), ManagerId(2));
        assert_eq!(pieces.add(one, (1, 0, 1), vec![9]), Some(vec![9]));
        assert_eq!(pieces.add(one, (2, 1, 3), vec![2]), None);
        assert_eq!(pieces.add(other, (2, 0, 2), vec![7]), None);
        assert_eq!(pieces.add(one, (2, 1, 3), vec![2]), None, "came twice");
        assert_eq!(pieces.add(one, (2, 2, 3), vec![3]), None);
        assert_eq!(pieces.add(one, (2, 0, 3), vec![1]), Some(vec![1, 2, 3]));
        // An abandoned message leaves nothing behind, and its late pieces do not revive it.
        assert_eq!(pieces.add(other, (5, 0, 2), vec![1]), None);
        assert_eq!(pieces.add(other, (2, 1, 2), vec![8]), None);
        assert_eq!(pieces.add(other, (5, 1, 2), vec![2]), Some(vec![1, 2]));
        for id in 0..100 {
            assert_eq!(pieces.add(ManagerId(id), (1, 0, 2), vec![1]), None);
            assert!(pieces.coming.len() <= MESSAGES_PIECED_MAX);
        }
    }
}
