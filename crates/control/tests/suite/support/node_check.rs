//! The invariants of nodes and their agents.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_control::agent::NoOutcome;
use zerohop_control::command::{CommandOutcome, ManagerId};
use zerohop_placement::ClusterMap;
use zerohop_wire::ids::{Incarnation, NodeId};

/// The observations so far.
#[derive(Default)]
pub(crate) struct NodeChecker {
    leaders: BTreeMap<u64, ManagerId>,
    /// The first map that was seen at each epoch.
    maps: BTreeMap<u64, ClusterMap>,
    /// The newest epoch that each node's present process follows.
    follows: BTreeMap<usize, u64>,
    /// The newest epoch that any node followed when a process started.
    before: BTreeMap<usize, u64>,
    numbers: BTreeMap<Incarnation, NodeId>,
    commands_sent: BTreeSet<u64>,
    answered: BTreeSet<u64>,
    pub(crate) outcomes: BTreeMap<u64, Result<CommandOutcome, NoOutcome>>,
    pub(crate) violations: Vec<String>,
    pub(crate) coverage: BTreeMap<&'static str, u64>,
}

impl NodeChecker {
    pub(crate) fn saw(&mut self, what: &'static str) {
        *self.coverage.entry(what).or_default() += 1;
    }

    pub(crate) fn violation(&mut self, what: String) {
        if self.violations.len() < 5 {
            self.violations.push(what);
        }
    }

    pub(crate) fn record_leader(&mut self, term: u64, manager: ManagerId) {
        let first = *self.leaders.entry(term).or_insert(manager);
        if first != manager {
            self.violation(format!("{first} and {manager} both lead in term {term}"));
        }
    }

    pub(crate) fn starts(&mut self, at: usize, newest: u64) {
        self.follows.insert(at, 0);
        self.before.insert(at, newest);
    }

    pub(crate) fn opens(&mut self, at: usize, map: &ClusterMap) {
        let before = self.before.get(&at).copied().unwrap_or(0);
        if map.epoch().get() < before {
            let epoch = map.epoch();
            self.violation(format!(
                "node {at} opens with epoch {epoch}, and {before} was there before it started"
            ));
        }
    }

    /// A node follows this map, and passes it on. There is one map for each epoch, and no node goes
    /// back.
    pub(crate) fn has(&mut self, at: usize, map: &ClusterMap) {
        let epoch = map.epoch().get();
        let follows = self.follows.entry(at).or_default();
        if epoch == *follows {
            return;
        }
        if epoch < *follows {
            let follows = *follows;
            self.violation(format!("node {at} goes back from epoch {follows} to {epoch}"));
        }
        self.follows.insert(at, epoch);
        match self.maps.get(&epoch) {
            None => {
                for node in map.nodes() {
                    let first = *self.numbers.entry(node.incarnation()).or_insert(node.id());
                    if first != node.id() {
                        self.violation(format!(
                            "one start is in the map as node {first} and as {}",
                            node.id()
                        ));
                    }
                }
                self.maps.insert(epoch, map.clone());
            }
            Some(seen) if seen != map => self.violation(format!("two maps of epoch {epoch}")),
            Some(_) => {}
        }
    }

    pub(crate) fn record_request(&mut self, token: u64) {
        self.commands_sent.insert(token);
    }

    /// The process that was asked has ended.
    pub(crate) fn drop_request(&mut self, token: u64) {
        self.commands_sent.remove(&token);
    }

    pub(crate) fn answered(&mut self, token: u64, result: &Result<CommandOutcome, NoOutcome>) {
        if !self.answered.insert(token) {
            self.violation(format!("operator {token} is answered twice"));
        }
        self.saw(match result {
            Ok(outcome) if outcome.result.is_ok() => "done",
            Ok(_) => "refused by control",
            Err(_) => "not answered in time",
        });
        self.commands_sent.remove(&token);
        self.outcomes.insert(token, result.clone());
    }

    /// Operators without an answer.
    pub(crate) fn unanswered(&self) -> usize {
        self.commands_sent.len()
    }
}
