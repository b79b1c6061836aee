//! What this node knows of the control group, and which node to contact: the leader if it is known, else one
//! node after another.

use std::collections::BTreeMap;

use zerohop_placement::{Address, ClusterMap};

use super::message::ControlGroupNews;
use crate::command::{ManagerId, ManagerInfo};
use crate::limits::{CONTACTS_MAX, MESSAGES_PIECED_MAX};
use zerohop_base::random::SplitMix64;

/// One of so many turns goes to any node of the map, because all known managers may have been replaced.
const ANY_NODE_EVERY: u64 = 4;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ControlGroupView {
    /// The mark of the list of managers.
    pub(super) applied_count: u64,
    /// The highest mark of the outcome of an own proposal. The list may be older than that.
    pub(super) decided_count: u64,
    pub(super) managers: Vec<ManagerInfo>,
    pub(super) leader: Option<ManagerId>,
    contacts: Vec<Address>,
    /// The address from which each manager was last heard, also for managers that are not in the list (yet,
    /// or any more).
    last_addresses: BTreeMap<ManagerId, Address>,
    /// Managers that have moved, with their new addresses; lists may still have the old ones.
    moved: Vec<ManagerInfo>,
    round: u64,
}

impl ControlGroupView {
    pub(super) fn new(
        contacts: &[Address],
        managers: Vec<ManagerInfo>,
        moved: &[ManagerInfo],
    ) -> ControlGroupView {
        let contacts = contacts.iter().take(CONTACTS_MAX).cloned().collect();
        ControlGroupView { contacts, managers, moved: moved.to_vec(), ..ControlGroupView::default() }
    }

    /// Takes up news. Returns whether the list of members has changed.
    pub(super) fn apply_news(&mut self, news: &ControlGroupNews) -> bool {
        // A node whose state is behind may still know the leader.
        if news.leader.is_some() && (news.applied_count >= self.applied_count || self.leader.is_none()) {
            self.leader = news.leader;
        }
        if news.applied_count < self.applied_count {
            return false;
        }
        self.applied_count = news.applied_count;
        let mut managers = news.managers.clone();
        for one in &mut managers {
            if let Some(at) = self.moved_to(one.id) {
                one.addr.clone_from(at);
            }
        }
        let is_other = !managers.is_empty() && managers != self.managers;
        if is_other {
            self.managers = managers;
        }
        is_other
    }

    /// The new address of a manager that has moved.
    pub(super) fn moved_to(&self, id: ManagerId) -> Option<&Address> {
        self.moved.iter().find(|one| one.id == id).map(|one| &one.addr)
    }

    /// Forgets the moves that are in the decided list. If such a manager moves again, its address in the list
    /// is used.
    pub(super) fn drop_decided_moves(&mut self, decided: &[ManagerInfo]) {
        self.moved.retain(|one| !decided.contains(one));
    }

    /// The same on a node without a manager: the managers send it the addresses.
    pub(super) fn drop_all_moves(&mut self) {
        self.moved.clear();
    }

    /// The address from which a manager was last heard.
    pub(super) fn last_address(&self, id: ManagerId) -> Option<&Address> {
        self.last_addresses.get(&id)
    }

    /// The highest mark heard of.
    pub(super) fn mark(&self) -> u64 {
        self.applied_count.max(self.decided_count)
    }

    pub(super) fn news(&self, mark: u64) -> ControlGroupNews {
        ControlGroupNews { applied_count: mark, managers: self.managers.clone(), leader: self.leader }
    }

    pub(super) fn record_address(&mut self, id: ManagerId, at: &Address) {
        if self.last_addresses.get(&id) != Some(at)
            && (self.last_addresses.contains_key(&id) || self.last_addresses.len() < MESSAGES_PIECED_MAX)
        {
            self.last_addresses.insert(id, at.clone());
        }
    }

    pub(super) fn address_of(&self, id: ManagerId) -> Option<&Address> {
        let listed = self.managers.iter().find(|manager| manager.id == id).map(|manager| &manager.addr);
        listed.or_else(|| self.last_addresses.get(&id))
    }

    /// The address of the leader, if it is known.
    pub(super) fn leader_at(&self) -> Option<&Address> {
        self.leader.and_then(|leader| self.address_of(leader))
    }

    /// The next address to contact, other than this node's own.
    pub(super) fn next(
        &mut self,
        me: &Address,
        map: &ClusterMap,
        stream: &mut SplitMix64,
    ) -> Option<Address> {
        self.round += 1;
        if self.round.is_multiple_of(ANY_NODE_EVERY) && map.nodes().len() > 0 {
            let at = stream.between(0, map.nodes().len() as u64) as usize;
            let member = map.nodes().nth(at).and_then(|node| Address::new(node.manager()).ok());
            if let Some(member) = member.filter(|address| address != me) {
                return Some(member);
            }
        }
        let known = self.known().filter(|address| *address != me).count().max(1) as u64;
        let others = self.known().filter(|address| *address != me);
        others.cycle().nth((self.round % known) as usize).cloned()
    }

    /// Managers and contacts, possibly with duplicates.
    pub(super) fn known(&self) -> impl Iterator<Item = &Address> + Clone {
        self.managers.iter().map(|manager| &manager.addr).chain(&self.contacts)
    }
}
