//! The status of the cluster as this node sees it: whether the control group decides, and which nodes do not
//! answer. The map alone cannot show it: it does not change while nothing is decided.
//!
//! A member of the control group knows from its manager whether there is a leader; a leader without a
//! majority steps down within an election timeout. A leader that its manager no longer counts as a voter is
//! none. Another node knows a leader by the leader's own messages:
//! it polls the leader every second.

use zerohop_placement::{Address, NodeState};
use zerohop_wire::ids::NodeId;
use zerohop_wire::plurals::{by_number, counted};

use super::cluster_status::ClusterStatus;
use super::message::ControlGroupNews;
use super::notice::LogNotice;
use super::{Agent, AgentEffect};
use crate::command::{ManagerId, ManagerInfo};
use crate::limits::{
    LEADERLESS_MEMBER_MS, LEADERLESS_NODE_MS, SILENT_REPORT_MS, SILENT_REPORT_PAUSE_MS, WAITS_FIRST_MS,
};
use crate::manager::RaftManager;
use zerohop_base::time::Time;

/// A longer gap between two events is a pause of this process: it could not receive anything in it.
const PAUSE_MS: u64 = 1_000;

/// How long the manager of this node has been without a leader before a leader's message shows that it was
/// removed. The leader sends its members heartbeats every 100 ms.
const LOST_MEMBERSHIP_MS: u64 = 2_000;

/// Number of addresses that are shown to people.
const ADDRESSES_SHOWN_MAX: usize = 8;

/// The observations so far.
#[derive(Debug, Default)]
pub(super) struct StatusWatch {
    /// When a leader was last known.
    leader_known_at: Time,
    /// The leader that was last reported.
    leader: Option<ManagerId>,
    /// It was reported that nothing is decided.
    is_loss_reported: bool,
    /// When to report next what a start waits for.
    waits_next: Time,
}

impl StatusWatch {
    pub(super) fn new(now: Time) -> StatusWatch {
        StatusWatch {
            leader_known_at: now,
            waits_next: now.after_ms(WAITS_FIRST_MS),
            ..StatusWatch::default()
        }
    }
}

impl Agent {
    /// The status of the cluster at this time, as this node sees it.
    pub fn cluster_state(&self, now: Time) -> ClusterStatus {
        let now = now.max(self.now);
        let is_led = self.has_leader();
        let leaderless_ms = if is_led { 0 } else { now.since_us(self.watch.leader_known_at) / 1_000 };
        let has_quorum = leaderless_ms < self.leaderless_max_ms();
        let managers = self.group.managers.iter();
        let leader = self.group.leader.filter(|_| has_quorum).and_then(|id| self.info_of(id));
        ClusterStatus {
            node: self.node(),
            leader_node: leader.as_ref().and_then(|leader| self.node_at(&leader.addr)),
            leader,
            leaderless_ms,
            has_quorum,
            is_manager: self.manager_in_control().is_some(),
            managers: managers.map(|one| (one.clone(), self.manager_answers_now(now, one))).collect(),
            silent: self.silent_nodes(now),
            waits_for: self.waits_for(),
        }
    }

    /// The manager of this node, unless it has been removed from the control group, or is not added yet: such
    /// a manager gets no messages of a leader.
    fn manager_in_control(&self) -> Option<&RaftManager> {
        self.manager.as_ref().filter(|manager| manager.is_member())
    }

    /// A manager and its address. A leader that is being removed is no longer in the list.
    fn info_of(&self, id: ManagerId) -> Option<ManagerInfo> {
        let is_own = self.manager.as_ref().is_some_and(|manager| manager.id() == id);
        let addr = if is_own { Some(&self.settings.manager) } else { self.group.address_of(id) };
        addr.map(|addr| ManagerInfo { id, addr: addr.clone() })
    }

    /// The manager of this node knows a leader.
    fn has_leader(&self) -> bool {
        self.manager_in_control().is_some_and(RaftManager::has_leader)
    }

    /// The addresses that a start contacts, and which members of the control group answer; for people.
    pub(super) fn contacts_text(&self) -> String {
        if self.manager.is_some() && self.group.managers.len() > 1 {
            let managers: Vec<(&ManagerInfo, bool)> = self
                .group
                .managers
                .iter()
                .map(|one| (one, self.manager_answers_now(self.now, one)))
                .collect();
            let answering = managers.iter().filter(|(_, answers)| *answers).count();
            let missing: Vec<&str> =
                managers.iter().filter(|(_, answers)| !answers).map(|(one, _)| one.addr.as_str()).collect();
            let no_answer = match &missing[..] {
                [] => String::new(),
                missing => format!(", no answer from {}", missing.join(", ")),
            };
            return format!(
                "{answering} of {} {}{no_answer}",
                counted(managers.len(), "manager"),
                by_number(answering, "answers", "answer")
            );
        }
        let mut contacts: Vec<&str> = Vec::new();
        for addr in
            self.group.known().filter(|addr| **addr != self.settings.manager).take(ADDRESSES_SHOWN_MAX)
        {
            if !contacts.contains(&addr.as_str()) {
                contacts.push(addr.as_str());
            }
        }
        match &contacts[..] {
            [] => "no address of another node is known".to_owned(),
            contacts => format!("asked are {}", contacts.join(", ")),
        }
    }

    fn leaderless_max_ms(&self) -> u64 {
        if self.manager_in_control().is_some() { LEADERLESS_MEMBER_MS } else { LEADERLESS_NODE_MS }
    }

    /// The node whose manager has this address.
    pub(super) fn node_at(&self, addr: &Address) -> Option<NodeId> {
        self.map().nodes().find(|node| node.manager() == addr.as_str()).map(|node| node.id())
    }

    fn manager_answers_now(&self, now: Time, one: &ManagerInfo) -> bool {
        if one.addr == self.settings.manager {
            return true;
        }
        let answers = |id| self.gossip.as_ref().is_some_and(|gossip| gossip.answers(id).is_some());
        self.node_at(&one.addr).is_some_and(answers)
            || self
                .manager
                .as_ref()
                .is_some_and(|manager| manager.has_message_within(one.id, now, LEADERLESS_MEMBER_MS))
    }

    fn silent_nodes(&self, now: Time) -> Vec<NodeId> {
        let since = self.silent.since.iter();
        let long = since.filter(|(_, (_, since))| now.since_us(*since) >= SILENT_REPORT_MS * 1_000);
        let is_silent =
            |id: &NodeId| self.map().node(*id).is_some_and(|node| node.state() != NodeState::Down);
        long.map(|(id, _)| *id).filter(is_silent).collect()
    }

    /// After a long pause of this process: it could not receive messages in that time, so the pause does not
    /// count.
    pub(super) fn ignore_pause(&mut self, now: Time) {
        let gap_us = now.since_us(self.now);
        if gap_us > PAUSE_MS * 1_000 && self.has_joined() {
            self.watch.leader_known_at = self.watch.leader_known_at.after_us(gap_us).min(now);
        }
    }

    /// News has arrived. It counts as the leader's own message if it comes from the leader's address.
    pub(super) fn record_news(&mut self, from: &Address, news: &ControlGroupNews) {
        let is_leader = news.leader.is_some() && self.group.leader == news.leader;
        if !is_leader || self.group.leader_at() != Some(from) {
            return;
        }
        self.give_up_lost_membership(news);
        if self.manager_in_control().is_none() {
            self.record_leader();
        }
    }

    /// News has come from the leader itself. A manager that the list does not name gives up its membership if it
    /// knows its removal, or if the leader sends it no heartbeats: it was away when it was removed.
    fn give_up_lost_membership(&mut self, news: &ControlGroupNews) {
        let Some(manager) = &self.manager else { return };
        let id = manager.id();
        let is_named = self.group.managers.iter().any(|one| one.id == id);
        if is_named || news.leader == Some(id) || news.applied_count < manager.state().applied_count() {
            return;
        }
        let is_silent = self.now.since_us(self.watch.leader_known_at) >= LOST_MEMBERSHIP_MS * 1_000;
        if !manager.is_member() || is_silent {
            self.manager = None;
            self.manager_leader = None;
        }
    }

    fn record_leader(&mut self) {
        self.watch.leader_known_at = self.now;
        if self.watch.leader != self.group.leader
            && let Some(leader) = self.group.leader
            && let Some(addr) = self.group.address_of(leader).cloned()
        {
            self.watch.leader = Some(leader);
            let node = self.node_at(&addr);
            self.log_notice(LogNotice::LeaderChanged { node, addr });
        }
    }

    pub(super) fn log_notice(&mut self, notice: LogNotice) {
        if !self.has_ended {
            self.effects.push(AgentEffect::Log(notice));
        }
    }

    /// Reports what has happened since the last event.
    pub(super) fn tick_cluster_state(&mut self) {
        if self.has_leader() {
            self.record_leader();
        }
        let lost_us = self.now.since_us(self.watch.leader_known_at);
        // A start without a leader reports what it waits for instead.
        if lost_us >= self.leaderless_max_ms() * 1_000 && !self.watch.is_loss_reported && self.has_joined() {
            (self.watch.is_loss_reported, self.watch.leader) = (true, None);
            let status = self.cluster_state(self.now);
            self.log_notice(LogNotice::QuorumLost(Box::new(status)));
        } else if self.watch.is_loss_reported && lost_us == 0 {
            self.watch.is_loss_reported = false;
            self.log_notice(LogNotice::QuorumBack);
        }
        self.log_primary_changes();
        if self.now >= self.watch.waits_next
            && let Some(what) = self.waits_for()
        {
            self.watch.waits_next = self.now.after_ms(SILENT_REPORT_PAUSE_MS);
            self.log_notice(LogNotice::Waits(what));
        }
    }
}
