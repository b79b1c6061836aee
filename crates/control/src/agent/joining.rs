//! How a start of a node becomes a part of the cluster.
//!
//! ```text
//!   Synchronizing ── a command that changes nothing is decided: what was decided before this start has a lower mark
//!   Waiting ── for a map of that mark, or a later one
//!   Opening ── the shell opens its instances with it
//!   Joining ── `Join`, naming the start that it replaces, as that map has it
//!   Joined  ── the map has this start
//! ```
//!
//! A map that is older than this start must not be used. Instances would remove partitions that it does not assign to
//! them, and the start that it names need not be the last one. A later map must not be used for `replaces`: it may name
//! a start after this one.

use std::sync::Arc;

use zerohop_placement::{ClusterMap, NodeState};
use zerohop_wire::ids::{Incarnation, InstanceId, NodeId};

use super::message::ProposalAnswer;
use super::own_node::OwnNode;
use super::proposals::ProposalPurpose;
use super::{Agent, AgentEffect, EndReason};
use crate::command::{CommandOutcome, CommandRefusal, ControlCommand, JoinNode, LogIndexReport};
use crate::planted::{Bug, is_planted};
use zerohop_base::time::Time;

/// Time between two checks for a map that is new enough.
const CHECK_MS: u64 = 50;

/// A process that answers may be about to end. For so long, a start that would replace it at another address
/// must retry. After this time the agent refuses the start. Gossip notices much earlier that a process has ended.
const DOUBLE_MS: u64 = 10_000;

/// The phase of a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum StartPhase {
    /// The cluster's name is not known yet.
    #[default]
    ClusterUnknown,
    Synchronizing,
    Waiting {
        applied_count: u64,
    },
    Opening {
        replaces: Incarnation,
    },
    Joining {
        replaces: Incarnation,
        found: DiskState,
    },
    Joined,
}

/// The state of the disks as a start found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiskState {
    /// All logs are intact.
    pub(super) intact: bool,
    /// The previous start was shut down cleanly.
    pub(super) closed: bool,
}

impl Agent {
    pub(super) fn tick_start(&mut self) {
        match self.start {
            StartPhase::ClusterUnknown if self.cluster_is_known() => {
                self.start = StartPhase::Synchronizing;
                self.propose_no_op();
            }
            StartPhase::Waiting { applied_count: mark }
                if self.maps.applied_count >= mark || is_planted(Bug::InstancesOpenedWithAnyMap) =>
            {
                let map = Arc::clone(self.map());
                self.find_number(&map);
                let own = self.settings.node.and_then(|node| map.node(node));
                let replaces = own.map_or(Incarnation(0), |own| own.incarnation());
                self.start = StartPhase::Opening { replaces };
                self.maps.is_open = true;
                self.effects.push(AgentEffect::Open(map));
            }
            StartPhase::Waiting { .. } => {
                let at = self.now.after_ms(CHECK_MS);
                self.fetch.next = self.fetch.next.min(at);
            }
            _ => {}
        }
    }

    /// Proposes a command that changes nothing: a report of no logs by node 0, which is refused. Its answer
    /// has the mark.
    fn propose_no_op(&mut self) {
        let report =
            LogIndexReport { node: NodeId(0), incarnation: self.settings.incarnation, logs: Vec::new() };
        self.propose(ProposalPurpose::NoOp, ControlCommand::ReportLogs(report), Time::NEVER);
    }

    pub(super) fn no_op_decided(&mut self, mark: u64) {
        if self.start == StartPhase::Synchronizing {
            self.start = StartPhase::Waiting { applied_count: mark };
            self.start_applied_count = Some(mark);
            self.fetch_soon();
        }
    }

    pub(super) fn opened(&mut self, found: DiskState) {
        if let StartPhase::Opening { replaces } = self.start {
            self.start = StartPhase::Joining { replaces, found };
            self.join(replaces, found);
        }
    }

    /// Finds the number of this node in the map if an earlier start joined, and was ended before it could
    /// store its number.
    fn find_number(&mut self, map: &ClusterMap) {
        if self.settings.node.is_none()
            && let Some(at) = &self.settings.joined_at
        {
            let found = map.nodes().find(|node| node.manager() == at.as_str());
            self.settings.node = found.map(|node| node.id());
        }
    }

    fn join(&mut self, replaces: Incarnation, found: DiskState) {
        let settings = &self.settings;
        let join = JoinNode {
            node: settings.node,
            replaces,
            incarnation: settings.incarnation,
            manager: settings.manager.clone(),
            instances: settings.instances.clone(),
            domain: settings.domain,
            capacity: settings.capacity,
            intact: found.intact,
            closed: found.closed,
        };
        self.propose(ProposalPurpose::Join, ControlCommand::Join(join), Time::NEVER);
    }

    /// The answer to a start of a node at another address than in the map, while the process that it would
    /// replace still answers. Either its folder is a copy, and the serving process continues; or that process
    /// was killed just now, so that the start must retry until gossip has noticed. A start at the same
    /// address is accepted: the process before can only have ended.
    pub(super) fn is_duplicate_start(&mut self, join: &JoinNode) -> Option<ProposalAnswer> {
        let map = Arc::clone(self.manager.as_ref()?.state().map());
        let known = map.node(join.node?)?;
        let (node, incarnation) = (known.id(), known.incarnation());
        let is_own = self.own_node() == Some(node) && incarnation == self.settings.incarnation;
        let answers_now =
            self.gossip.as_ref().is_some_and(|gossip| gossip.answers(node) == Some(incarnation));
        let is_duplicate_start = incarnation == join.replaces
            && incarnation != join.incarnation
            && known.manager() != join.manager.as_str()
            && known.state() != NodeState::Down
            && (is_own || answers_now);
        if !is_duplicate_start {
            self.duplicate_starts.remove(&node);
            return None;
        }
        let doubt = self.duplicate_starts.entry(node).or_insert((join.incarnation, self.now));
        if doubt.0 != join.incarnation {
            *doubt = (join.incarnation, self.now);
        }
        if self.now.since_us(doubt.1) < DOUBLE_MS * 1_000 {
            return Some(ProposalAnswer::Busy);
        }
        let why = format!(
            "node {node} is served elsewhere (a copy? see `zerohop folder new-cluster`): stop the process at {} first",
            known.manager()
        );
        Some(ProposalAnswer::Decided(CommandOutcome {
            result: Err(CommandRefusal::Map(why)),
            applied_count: 0,
        }))
    }

    pub(super) fn join_decided(&mut self, outcome: CommandOutcome) {
        let StartPhase::Joining { replaces, found } = self.start else { return };
        match outcome.result {
            Ok(_) => self.fetch_soon(),
            // A repeated join is safe: it is refused if this start is in the map. A new node, however, could
            // be in the map twice.
            Err(CommandRefusal::TooOld) if self.settings.node.is_some() => self.join(replaces, found),
            Err(CommandRefusal::UnknownNode) => {
                self.end(EndReason::Removed { node: self.settings.node.unwrap_or_default() });
            }
            Err(CommandRefusal::StaleIncarnation) => {
                let node = self.settings.node.unwrap_or_default();
                let incarnation = self.map().node(node).map(|node| node.incarnation());
                // The join was decided before, and its outcome was forgotten: the map will show it.
                if incarnation == Some(self.settings.incarnation) {
                    return self.check_own_entry();
                }
                let incarnation = incarnation.filter(|there| *there != replaces);
                self.end(EndReason::AnotherStart { node, incarnation });
            }
            Err(refusal) => self.end(EndReason::Refused { reason: refusal.to_string() }),
        }
    }

    /// Checks the entry of this node in the map.
    pub(super) fn check_own_entry(&mut self) {
        match self.start {
            StartPhase::Joining { .. } => self.find_own_entry(),
            StartPhase::Joined => {
                let Some(own) = self.own else { return };
                let map = Arc::clone(self.map());
                match map.node(own.node) {
                    None => self.end(EndReason::Removed { node: own.node }),
                    Some(node) if node.incarnation() != self.settings.incarnation => {
                        let incarnation = Some(node.incarnation());
                        self.end(EndReason::AnotherStart { node: own.node, incarnation });
                    }
                    Some(_) => {}
                }
            }
            _ => {}
        }
    }

    fn find_own_entry(&mut self) {
        let map = Arc::clone(self.map());
        let incarnation = self.settings.incarnation;
        let found = match self.settings.node {
            Some(node) => map.node(node).filter(|node| node.incarnation() == incarnation),
            // The newest nodes are mostly last.
            None => map.nodes().find(|node| {
                node.incarnation() == incarnation && node.manager() == self.settings.manager.as_str()
            }),
        };
        let Some(found) = found else { return };
        let instances = found.instances().count() as u32;
        let first_instance = found.instances().next().map_or(InstanceId(0), |first| first.id);
        let own = OwnNode { node: found.id(), first_instance, instances };
        self.start = StartPhase::Joined;
        self.own = Some(own);
        if self.manager.is_none() {
            self.group.drop_all_moves();
        }
        self.effects.push(AgentEffect::Joined { node: own.node, first_instance, epoch: map.epoch() });
        self.begin_gossip(own.node, map.epoch());
        self.managers_changed();
    }
}
